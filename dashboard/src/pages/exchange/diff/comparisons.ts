/** The pairs of recorded bodies that can be compared. */
import type { ExchangeFacts } from '../record/exchange-facts.ts';
import { guardedBodies, type RecordedBody, requestBody } from '../record/recorded-bodies.ts';
import type { RecordedEvent } from '../record/recorded-event.ts';

export type Side =
  | { readonly kind: 'recorded'; readonly body: RecordedBody | undefined; readonly title: string }
  | { readonly kind: 'provider'; readonly attempt: number; readonly title: string }
  | { readonly kind: 'turn'; readonly exchange: string; readonly title: string };

export interface Comparison {
  /** In the address of the view. */
  readonly name: string;
  readonly title: string;
  readonly before: Side;
  readonly after: Side;
}

/** @param previous the exchange of the turn before this one */
export function comparisonsOf(
  events: readonly RecordedEvent[],
  facts: ExchangeFacts,
  previous: string | undefined,
): readonly Comparison[] {
  const client: Side = { kind: 'recorded', body: requestBody(events), title: 'client request' };
  const guarded = guardedBodies(events);
  const comparisons: Comparison[] = facts.attempts.map((attempt) => ({
    name: `attempt-${attempt.number}`,
    title: `Client request and what ${attempt.provider} received (attempt ${attempt.number})`,
    before: client,
    after: { kind: 'provider', attempt: attempt.number, title: `provider request ${attempt.number}` },
  }));
  let before: Side = client;
  for (const [place, body] of guarded.entries()) {
    const title = guarded.length === 1 ? 'request after guardrails' : `request after guardrails ${place + 1}`;
    const after: Side = { kind: 'recorded', body, title };
    comparisons.push({ name: `guardrails-${place + 1}`, title: 'Before and after the guardrails', before, after });
    before = after;
  }
  for (const [place, attempt] of facts.attempts.entries()) {
    const earlier = facts.attempts[place - 1];
    if (earlier === undefined) continue;
    comparisons.push({
      name: `attempts-${earlier.number}-${attempt.number}`,
      title: `Attempts ${earlier.number} and ${attempt.number}`,
      before: { kind: 'provider', attempt: earlier.number, title: `provider request ${earlier.number}` },
      after: { kind: 'provider', attempt: attempt.number, title: `provider request ${attempt.number}` },
    });
  }
  if (previous !== undefined) {
    comparisons.push({
      ...{ name: 'turn', title: 'The turn before and this one' },
      before: { kind: 'turn', exchange: previous, title: 'request of the turn before' },
      after: client,
    });
  }
  return comparisons;
}

export interface ChainEdge {
  readonly from: string;
  readonly to: string;
  readonly kind: string;
}

const strongest = ['previous_response', 'conversation', 'session'];

/** The exchange of the turn before, by the closest kind of relation. */
export function previousTurn(edges: readonly ChainEdge[], id: string): string | undefined {
  for (const kind of strongest) {
    const edge = edges.find((one) => one.to === id && one.kind === kind);
    if (edge !== undefined) return edge.from;
  }
  return undefined;
}
