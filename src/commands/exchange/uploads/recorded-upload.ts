/** A request body that is sent to the provider piece by piece; each piece is recorded before it is sent. */
import { requestBodyReceived } from '../../../events/catalogue/exchange.ts';
import { LogUnavailable } from '../../../events/log.ts';
import { type Refusal, refusals } from '../../refusal.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import type { Upload } from '../plan.ts';

export interface UploadOptions {
  readonly record: ExchangeRecord;
  readonly limitBytes: number;
  /** Whether the bytes are recorded, or only their number. */
  readonly keep: boolean;
}

export class RecordedUpload implements Upload {
  readonly #pieces: AsyncIterable<Buffer>;
  readonly #options: UploadOptions;
  #failure: Refusal | LogUnavailable | undefined;

  constructor(pieces: AsyncIterable<Buffer>, options: UploadOptions) {
    this.#pieces = pieces;
    this.#options = options;
  }

  get failure(): Refusal | LogUnavailable | undefined {
    return this.#failure;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    const { record, limitBytes, keep } = this.#options;
    let index = 0;
    let bytes = 0;
    for await (const piece of this.#pieces) {
      bytes += piece.length;
      if (bytes > limitBytes) throw this.#fail(refusals.bodyTooLarge(limitBytes));
      record.note(requestBodyReceived.create({ index }, record.context, keep ? piece : undefined));
      index += 1;
      try {
        await record.flush('written');
      } catch (error) {
        throw error instanceof LogUnavailable ? this.#fail(error) : error;
      }
      yield piece;
    }
  }

  #fail<Failure extends Refusal | LogUnavailable>(failure: Failure): Failure {
    this.#failure = failure;
    return failure;
  }
}
