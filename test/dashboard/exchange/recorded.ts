/** The recorded events of requests to a real gateway, as the page of an exchange reads them. */
import { expect } from 'vitest';
import type { RecordedEvent, RelatedLink } from '../../../dashboard/src/pages/exchange/record/recorded-event.ts';
import { exchangeOf, json, type StartedGateway } from '../../support/with-gateway.ts';

export interface Recorded {
  readonly id: string;
  readonly events: readonly RecordedEvent[];
  readonly related: readonly RelatedLink[];
}

/** Sends the request, reads the answer to its end, and returns its record. */
export async function recorded(
  gateway: StartedGateway,
  path: string,
  body: object,
  headers: Record<string, string> = {},
): Promise<Recorded> {
  const answer = await gateway.post(path, body, { headers });
  await answer.text();
  return recordOf(gateway, exchangeOf(answer));
}

export async function recordOf(gateway: StartedGateway, id: string): Promise<Recorded> {
  const answer = await gateway.fetch(`/admin/audit/events?log_id=${id}&limit=1000`);
  expect(answer.status).toBe(200);
  const { events, related } = await json(answer);
  return { id, events, related };
}
