import type { Position } from '../../../events/event.ts';
import type { Ticket } from '../../model-request/admission.ts';
import type { Client } from '../../model-request/client.ts';
import type { ModelRequest } from '../../model-request/model-request.ts';
import type { Asked } from '../../model-request/parsed-request.ts';
import type { Route } from '../../model-request/route.ts';
import type { Refusal } from '../../refusal.ts';
import type { PromisedResponse } from '../background/background.ts';
import type { ExchangeDialect } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';

/** One exchange on its way through the pipeline. */
export interface Run {
  readonly dialect: ExchangeDialect;
  readonly request: ModelRequest;
  readonly client: Client;
  readonly record: ExchangeRecord;
  readonly begun?: Begun;
}

/** A request that may be made. */
export interface Admitted {
  readonly route: Route;
  readonly ticket: Ticket;
}

/** What was done before, of an exchange that does not begin with its request. */
export interface Begun {
  readonly asked: Asked;
  /** Calls made to a provider. */
  readonly attempts: number;
  /** Set when the request was let through already. */
  readonly admitted?: Admitted;
  /** Why it cannot be gone on with: whoever asked for it may not ask any more. */
  readonly refused?: Refusal;
  /** The response that was promised, of an exchange that is taken up again after the gateway went down. */
  readonly promise?: PromisedResponse;
}

/** An exchange that the record left open before anything was said. */
export interface ResumableRun extends Run {
  readonly begun: Begun;
  /** A position before its first event. */
  readonly recordedAfter: Position;
}
