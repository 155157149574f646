/** A request as the guardrails of the prompt phase let it pass. */
import type { ParsedRequest } from '../../model-request/parsed-request.ts';
import type { OwnAnswer } from '../answer-source.ts';
import type { ExchangeGuard } from '../guarding/exchange-guard.ts';
import type { GuardedEndpoint } from '../guarding/guarded-endpoint.ts';
import type { EarlierTurns } from '../history.ts';

export interface GuardedRequest {
  readonly guard: ExchangeGuard;
  readonly endpoint: GuardedEndpoint;
  /** The request to send. */
  readonly parsedRequest: ParsedRequest;
  readonly body: Buffer;
  readonly headers: Record<string, string>;
  readonly merged: { readonly earlier: number } | undefined;
  /** The turns that the provider looks up itself. */
  readonly history: EarlierTurns | undefined;
  /** The answer of a guardrail, in place of a provider's. */
  readonly answer: OwnAnswer['given'] | undefined;
}
