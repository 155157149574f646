/**
 * Reads server-sent events from the bytes of a response, however they are divided (WHATWG HTML, "Interpreting an event
 * stream").
 */
export interface ServerSentEvent {
  readonly kind: 'event';
  /** Of this event itself: it is not repeated for later events. */
  readonly id: string | undefined;
  readonly type: string;
  readonly data: string;
}

export interface Comment {
  readonly kind: 'comment';
  readonly text: string;
}

/** A longer line is not an event of the gateway. */
const MAX_LINE = 16 * 1024 * 1024;

export class ServerSentEvents {
  /** Removes a byte order mark. */
  readonly #decoder = new TextDecoder();
  /** The beginning of a line that is not complete. */
  #parts: string[] = [];
  #partsLength = 0;
  #afterReturn = false;
  #id: string | undefined;
  #type = '';
  #data: string[] = [];

  /**
   * The events and comments that these bytes complete. The caller must take all of them before the next call.
   * @throws when a line is longer than 16 Mi characters
   */
  *read(bytes: Uint8Array): Generator<ServerSentEvent | Comment> {
    const text = this.#decoder.decode(bytes, { stream: true });
    if (text === '') return;
    let start = this.#afterReturn && text.startsWith('\n') ? 1 : 0;
    this.#afterReturn = text.endsWith('\r');
    let nextReturn = indexOrEnd(text, '\r', start);
    while (true) {
      if (nextReturn < start) nextReturn = indexOrEnd(text, '\r', start);
      const end = Math.min(indexOrEnd(text, '\n', start), nextReturn);
      if (end === text.length) break;
      const line = this.#parts.length === 0 ? text.slice(start, end) : this.#takeParts() + text.slice(start, end);
      start = end + (text.startsWith('\r\n', end) ? 2 : 1);
      const complete = this.#readLine(line);
      if (complete !== undefined) yield complete;
    }
    if (start < text.length) this.#keepPart(text.slice(start));
  }

  #keepPart(part: string): void {
    this.#parts.push(part);
    this.#partsLength += part.length;
    if (this.#partsLength > MAX_LINE) throw new Error('The gateway sent a line of more than 16 MiB.');
  }

  #takeParts(): string {
    const line = this.#parts.join('');
    this.#parts = [];
    this.#partsLength = 0;
    return line;
  }

  #readLine(line: string): ServerSentEvent | Comment | undefined {
    if (line === '') return this.#endEvent();
    const colon = line.indexOf(':');
    if (colon === 0) return { kind: 'comment', text: line.slice(line.startsWith(': ') ? 2 : 1) };
    const name = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(line.startsWith(' ', colon + 1) ? colon + 2 : colon + 1);
    if (name === 'data') this.#data.push(value);
    else if (name === 'event') this.#type = value;
    else if (name === 'id' && !value.includes('\0')) this.#id = value;
    return undefined;
  }

  #endEvent(): ServerSentEvent | undefined {
    const event: ServerSentEvent = {
      kind: 'event',
      id: this.#id,
      type: this.#type === '' ? 'message' : this.#type,
      data: this.#data.join('\n'),
    };
    const hasData = this.#data.length > 0;
    this.#id = undefined;
    this.#type = '';
    this.#data = [];
    return hasData ? event : undefined;
  }
}

function indexOrEnd(text: string, mark: string, from: number): number {
  const at = text.indexOf(mark, from);
  return at === -1 ? text.length : at;
}
