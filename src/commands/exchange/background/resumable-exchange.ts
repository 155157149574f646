/** The input that starts an exchange, or continues one after a restart. */
import type { Position } from '../../../events/event.ts';
import type { Client } from '../../model-request/client.ts';
import type { ModelRequest } from '../../model-request/model-request.ts';
import type { ParsedRequest } from '../../model-request/parsed-request.ts';
import type { Refusal } from '../../refusal.ts';
import type { ExchangeDialect } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';

/** Facts already on record for an exchange that the gateway continues after a restart. */
export interface Resumed {
  readonly parsedRequest: ParsedRequest;
  /** Calls made to a provider. */
  readonly attempts: number;
  /** The version of the workflow with which it was recorded; undefined when there was none. */
  readonly workflow?: string | undefined;
  /** Why it cannot be continued: its key is no longer accepted. */
  readonly refused?: Refusal;
}

export interface NewExchange {
  readonly dialect: ExchangeDialect;
  readonly request: ModelRequest;
  readonly record: ExchangeRecord;
  readonly client: Client;
  /** Id of this gateway, for the record of a new exchange. */
  readonly gateway?: string | undefined;
}

/** An exchange that the record left open before any part of its answer was recorded. */
export interface ResumableExchange extends NewExchange {
  readonly resumed: Resumed;
  /** A position before its first event. */
  readonly recordedAfter: Position;
}
