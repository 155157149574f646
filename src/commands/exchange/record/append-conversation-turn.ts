import type { RecordedPlaceholder } from '../../guardrails/placeholders.ts';
import type { ParsedRequest } from '../../model-request/parsed-request.ts';
import type { Sight } from '../../visibility.ts';
import type { ExchangeDialect } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import type { Relay } from '../relay.ts';

/** Notes the conversation turn of a completed exchange, to be appended with its end. */
export async function noteConversationTurn(
  dialect: ExchangeDialect | undefined,
  parsedRequest: ParsedRequest,
  relay: Pick<Relay, 'response'>,
  record: ExchangeRecord,
  by: { readonly sight: Sight; readonly placeholders?: readonly RecordedPlaceholder[] | undefined },
): Promise<void> {
  const { id, context } = record;
  const writes = dialect?.turn?.(parsedRequest, relay, { id, context, ...by });
  if (writes === undefined) return;
  for (const write of await writes) record.addWrite(write);
}
