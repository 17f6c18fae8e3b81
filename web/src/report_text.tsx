/**
 * A report shown inside the page: its elements are made anew, those of a list alone, in a tree of
 * their own, so that neither its style nor anything in it reaches the page around it.
 */

import { useEffect, useRef } from "preact/hooks";

const ELEMENTS = new Set(
  "h1 h2 h3 p div span b i em strong small code pre table thead tbody tfoot tr th td caption figure figcaption ul ol li dl dt dd br hr svg g line text tspan polyline polygon path rect circle title".split(
    " ",
  ),
);
const ATTRIBUTES = new Set(
  "class colspan rowspan role aria-label viewBox x y x1 x2 y1 y2 width height rx cx cy r d points transform text-anchor fill stroke stroke-width stroke-dasharray opacity".split(
    " ",
  ),
);
const SVG = "http://www.w3.org/2000/svg";

export function ReportText({ html }: { html: string }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const host = box.current as HTMLDivElement;
    const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
    const { text, style } = apart(html);
    const read = new DOMParser().parseFromString(text, "text/html");
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(style);
    root.adoptedStyleSheets = [sheet];
    const body = document.createElement("div");
    body.className = "body";
    copy(read.body, body);
    root.replaceChildren(body);
  }, [html]);
  return <div ref={box} class="report" tabIndex={0} role="region" aria-label="Report" />;
}

/**
 * Returns a page without its style, and the style, which the page's policy does not allow inline.
 *
 * The style of a single element is kept as its `data-style`. Handlers of events, which are never
 * copied, have another name, too: a browser reports them to the console while it reads them.
 */
function apart(html: string): { text: string; style: string } {
  const sheets: string[] = [];
  const text = html
    .replace(/<style[^>]*>([\s\S]*?)<\/style>/gi, (_, sheet: string) => {
      sheets.push(scoped(sheet));
      return "";
    })
    .replace(/<[a-z][^>]*>/gi, (tag) =>
      tag.replace(/\sstyle=/gi, " data-style=").replace(/\son\w+=/gi, " data-event="),
    );
  return { text, style: sheets.join("\n") };
}

/** Returns the style of a whole page as one of a part: its root and its body are those of the part. */
function scoped(text: string): string {
  return text.replaceAll(":root", ":host").replace(/(^|[\s{}])body(?=\s*\{)/g, "$1.body");
}

/** Copies what is in `from` into `into`; an element that is not on the list is left out whole. */
function copy(from: Element, into: Element): void {
  for (const node of from.childNodes) {
    if (node.nodeType === Node.TEXT_NODE) {
      into.append(node.textContent ?? "");
    } else if (node instanceof Element && ELEMENTS.has(node.localName)) {
      const isDrawing = node.namespaceURI === SVG;
      const made = isDrawing
        ? document.createElementNS(SVG, node.localName)
        : document.createElement(node.localName);
      for (const { name, value } of node.attributes) {
        if (ATTRIBUTES.has(name)) made.setAttribute(name, value);
        else if (name === "data-style" && made instanceof HTMLElement) made.style.cssText = value;
      }
      copy(node, made);
      into.append(made);
    }
  }
}
