/** Reads MessagePack, as far as blocks of a ledger use it. */

export type Packed = null | boolean | number | bigint | string | Uint8Array | Packed[] | Map<Packed, Packed>;

const text = new TextDecoder("utf-8", { fatal: true });

/** Returns the one value that `bytes` hold; throws where there is less or more. */
export function unpack(bytes: Uint8Array): Packed {
  const reader = new Reader(bytes);
  const value = reader.value();
  if (reader.at !== bytes.length) throw new Error("bytes are left behind the value");
  return value;
}

class Reader {
  at = 0;
  private readonly bytes: Uint8Array;
  private readonly view: DataView;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  value(): Packed {
    const byte = this.whole(1);
    if (byte < 0x80) return byte;
    if (byte < 0x90) return this.map(byte & 0x0f);
    if (byte < 0xa0) return this.array(byte & 0x0f);
    if (byte < 0xc0) return text.decode(this.taken(byte & 0x1f));
    if (byte >= 0xe0) return byte - 0x100;
    switch (byte) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xc4:
      case 0xc5:
      case 0xc6:
        return this.taken(this.whole(1 << (byte - 0xc4)));
      case 0xcb:
        return this.moved(8, () => this.view.getFloat64(this.at));
      case 0xcc:
      case 0xcd:
      case 0xce:
        return this.whole(1 << (byte - 0xcc));
      case 0xcf:
        return narrowed(this.moved(8, () => this.view.getBigUint64(this.at)));
      case 0xd0:
        return this.moved(1, () => this.view.getInt8(this.at));
      case 0xd1:
        return this.moved(2, () => this.view.getInt16(this.at));
      case 0xd2:
        return this.moved(4, () => this.view.getInt32(this.at));
      case 0xd3:
        return narrowed(this.moved(8, () => this.view.getBigInt64(this.at)));
      case 0xd9:
      case 0xda:
      case 0xdb:
        return text.decode(this.taken(this.whole(1 << (byte - 0xd9))));
      case 0xdc:
      case 0xdd:
        return this.array(this.whole(2 << (byte - 0xdc)));
      case 0xde:
      case 0xdf:
        return this.map(this.whole(2 << (byte - 0xde)));
      default:
        throw new Error(`byte ${byte.toString(16)} begins no value`);
    }
  }

  private moved<T>(size: number, read: () => T): T {
    if (this.at + size > this.bytes.length) throw new Error("the bytes end too early");
    const value = read();
    this.at += size;
    return value;
  }

  private whole(size: number): number {
    return this.moved(size, () => {
      if (size === 1) return this.view.getUint8(this.at);
      return size === 2 ? this.view.getUint16(this.at) : this.view.getUint32(this.at);
    });
  }

  private taken(size: number): Uint8Array {
    return this.moved(size, () => this.bytes.subarray(this.at, this.at + size));
  }

  private array(size: number): Packed[] {
    return Array.from({ length: size }, () => this.value());
  }

  private map(size: number): Map<Packed, Packed> {
    return new Map(Array.from({ length: size }, () => [this.value(), this.value()]));
  }
}

function narrowed(value: bigint): number | bigint {
  const small = Number(value);
  return Number.isSafeInteger(small) ? small : value;
}
