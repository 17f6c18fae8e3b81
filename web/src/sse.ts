/** Server-sent events, read from a response's body: `EventSource` can send no header. */

export interface Sent {
  id: string;
  event: string;
  data: string;
}

/** Yields the events of `body` as they come; a comment alone yields nothing. */
export async function* sentEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<Sent> {
  const reader = body.pipeThrough(new TextDecoderStream() as never).getReader();
  let rest = "";
  let id = "";
  let event = "";
  let data: string[] = [];
  for (;;) {
    const { value, done } = (await reader.read()) as { value?: string; done: boolean };
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (data.length) yield { id, event: event || "message", data: data.join("\n") };
        event = "";
        data = [];
        continue;
      }
      const colon = line.indexOf(":");
      const name = colon < 0 ? line : line.slice(0, colon);
      const content = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "id") id = content;
      else if (name === "event") event = content;
      else if (name === "data") data.push(content);
    }
  }
}
