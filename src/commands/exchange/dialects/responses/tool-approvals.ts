/** Approvals of calls of tools: each allows one call, of the request that uses it first. */
import { toolApprovalUsed } from '../../../../events/catalogue/response.ts';
import { streamName } from '../../../../events/event.ts';
import { type EventLog, newestEvent } from '../../../../events/log.ts';
import { isObject } from '../../../../json/is-object.ts';
import { refusals } from '../../../refusal.ts';
import { type ApprovedCall, approvedCalls, type ToolServer } from '../../../responses/gateway-tools.ts';
import type { MadeOutput } from '../../dialect.ts';
import type { ExchangeRecord } from '../../exchange-record.ts';

interface ApprovingRequest {
  /** Earlier turns and the new input. */
  readonly items: readonly unknown[];
  readonly servers: readonly ToolServer[];
  readonly record: ExchangeRecord;
  readonly made: MadeOutput | undefined;
}

/**
 * Records that the approvals are used, before any call. Nothing else of the exchange is being appended meanwhile.
 * @returns the calls that have not begun
 * @throws Refusal for an approval that is unknown or used; LogUnavailable
 */
export async function claimApprovals(
  { items, servers, record, made }: ApprovingRequest,
  log: Pick<EventLog, 'readStream'>,
): Promise<readonly ApprovedCall[]> {
  const approved: ApprovedCall[] = [];
  for (const call of approvedCalls(items)) {
    if ('unknown' in call) {
      const message = `The approval request '${call.unknown}' is neither in the input nor in the turns before it.`;
      throw refusals.invalidRequest(message, 'input');
    }
    if (!servers.some(({ label }) => label === call.label)) {
      const message = `The approved call of '${call.name}' needs the MCP server '${call.label}' among the tools.`;
      throw refusals.invalidRequest(message, 'tools');
    }
    approved.push(call);
  }
  for (const { requestId } of approved) {
    const stream = streamName('tool_approval', requestId);
    const event = toolApprovalUsed.create({ exchangeId: record.id }, record.context);
    if (await record.flushIf({ stream, events: [event], expectedRevision: 'noStream' })) continue;
    const use = await newestEvent(stream, log);
    // A response that is continued has claimed its own.
    const isOwn = isObject(use?.data) && use.data.exchangeId === record.id;
    if (!isOwn) throw refusals.approvalUsed(requestId);
  }
  const begun = new Set(made?.items.map((item) => item['approval_request_id']));
  return approved.filter(({ requestId }) => !begun.has(requestId));
}
