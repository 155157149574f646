/** A reader's query that is refused. The message states the part that readers may not use. */
export class NotForReaders extends Error {
  /** ClickHouse's code: 164 is a query that is not allowed in readonly mode, 73 an unknown format. */
  readonly code: 164 | 73;
  constructor(message: string, code: 164 | 73 = 164) {
    super(message);
    this.code = code;
  }
}
