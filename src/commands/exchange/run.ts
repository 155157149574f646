import type { Client, ModelRequest } from './client.ts';
import type { Asked, ExchangeDialect } from './dialect.ts';
import type { ExchangeRecord } from './exchange-record.ts';

/** One exchange on its way through the pipeline. */
export interface Run {
  readonly dialect: ExchangeDialect;
  readonly request: ModelRequest;
  readonly client: Client;
  readonly record: ExchangeRecord;
  readonly begun?: Begun;
}

/** What was done before, of an exchange that does not begin with its request. */
export interface Begun {
  readonly asked: Asked;
  /** Calls made to a provider. */
  readonly attempts: number;
  /** Whether it is taken up again after the gateway went down. */
  readonly resumed: boolean;
}
