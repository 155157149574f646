/** A reader's query that is not run. The message says what is not for readers. */
export class NotForReaders extends Error {
  /** Of ClickHouse: 164 is what cannot be run in readonly mode, 73 an unknown format. */
  readonly code: 164 | 73;
  constructor(message: string, code: 164 | 73 = 164) {
    super(message);
    this.code = code;
  }
}
