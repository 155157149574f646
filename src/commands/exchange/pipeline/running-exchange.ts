/** One exchange while it runs. */
import type { Client } from '../../model-request/client.ts';
import type { ModelRequest } from '../../model-request/model-request.ts';
import type { Target } from '../../model-request/target.ts';
import type { PendingResponse } from '../background/announce-pending-response.ts';
import type { NewExchange, Resumed } from '../background/resumable-exchange.ts';
import type { ExchangeDialect } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import { ExchangeScope } from '../scope.ts';
import type { GuardedRequest } from './guarded-request.ts';

export class RunningExchange {
  readonly dialect: ExchangeDialect;
  readonly request: ModelRequest;
  readonly record: ExchangeRecord;
  readonly resumed: Resumed | undefined;
  readonly scope = new ExchangeScope();
  /** The client that gets the answer. Replaced when the exchange continues without it. */
  client: Client;
  /** The background response, once its id is on record. */
  pendingResponse: PendingResponse | undefined;
  /** The request as its guardrails let it pass; undefined when none runs. */
  guarded: GuardedRequest | undefined;
  /** The target that was called last. */
  target: Target | undefined;

  constructor({ dialect, request, record, client }: NewExchange, resumed?: Resumed) {
    this.dialect = dialect;
    this.request = request;
    this.record = record;
    this.client = client;
    this.resumed = resumed;
  }
}
