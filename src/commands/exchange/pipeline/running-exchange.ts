/** One exchange while it runs. */
import type { Client } from '../../model-request/client.ts';
import type { ModelRequest } from '../../model-request/model-request.ts';
import type { Target } from '../../model-request/target.ts';
import type { SentRequests } from '../attempts/sent-requests.ts';
import type { PendingResponse } from '../background/announce-pending-response.ts';
import type { NewExchange, Resumed } from '../background/resumable-exchange.ts';
import type { CachePlace } from '../caching/store-answer.ts';
import type { ExchangeDialect } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import type { BeforePlugins } from '../plugin-changes.ts';
import { ExchangeScope } from '../scope.ts';
import type { GuardedRequest } from './guarded-request.ts';

export class RunningExchange {
  readonly dialect: ExchangeDialect;
  /** Replaced when plugins change it. */
  request: ModelRequest;
  /** The client's values of what plugins changed; undefined when no plugin ran. */
  beforePlugins: BeforePlugins | undefined;
  readonly record: ExchangeRecord;
  readonly resumed: Resumed | undefined;
  /** Id of this gateway. */
  readonly gateway: string | undefined;
  readonly scope = new ExchangeScope();
  /** The client that gets the answer. Replaced when the exchange continues without it. */
  client: Client;
  /** The background response, once its id is on record. */
  pendingResponse: PendingResponse | undefined;
  /** The request as its guardrails let it pass; undefined when none runs. */
  guarded: GuardedRequest | undefined;
  /** Whether the answer was looked for in the response cache, and not found. */
  hasMissedCache = false;
  /** Where the answer may be cached; undefined where it must not be. */
  cachePlace: CachePlace | undefined;
  /** The requests to providers, once one was called. */
  sent: SentRequests | undefined;
  /** The target that was called last. */
  target: Target | undefined;

  constructor({ dialect, request, record, client, gateway }: NewExchange, resumed?: Resumed) {
    this.dialect = dialect;
    this.request = request;
    this.record = record;
    this.client = client;
    this.resumed = resumed;
    this.gateway = gateway;
  }
}
