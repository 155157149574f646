/** Keeps an event stream alive while no bytes are sent, so that proxies do not close its connection. */

/** A client that receives no bytes for this long receives a comment. */
const HEARTBEAT_MS = 15_000;
const COMMENT = Buffer.from(': keep-alive\n\n');

export class Heartbeat {
  #timer: NodeJS.Timeout | undefined;

  /** @param send called with a comment after each 15 s without `sent` */
  constructor(send: (comment: Buffer) => void) {
    this.#timer = setInterval(() => send(COMMENT), HEARTBEAT_MS);
  }

  /** Bytes were sent: the 15 s begin again. */
  sent(): void {
    this.#timer?.refresh();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
