/** Approvals of calls of tools: each allows one call that the gateway has asked for, of the request that uses it first. */
import { toolApprovalUsed } from '../../../../events/catalogue/response.ts';
import { streamName } from '../../../../events/event.ts';
import { type EventLog, newestEvent } from '../../../../events/log.ts';
import type { SealerSource } from '../../../credentials/sealed-credentials.ts';
import { refusals } from '../../../refusal.ts';
import type { FindItem } from '../../../responses/archive.ts';
import { type ApprovedCall, answeredCalls, isOwnRequest, type ToolServer } from '../../../responses/gateway-tools.ts';
import type { MadeOutput } from '../../dialect.ts';
import type { ExchangeRecord } from '../../exchange-record.ts';

interface ApprovingRequest {
  /** Earlier turns and the new input. */
  readonly items: readonly unknown[];
  readonly servers: readonly ToolServer[];
  readonly record: ExchangeRecord;
  readonly find: FindItem;
  readonly made: MadeOutput | undefined;
}

interface Requests {
  readonly log: Pick<EventLog, 'readStream'>;
  readonly sealers: SealerSource;
}

/** Who may approve: the user path of the request, or its key where there is none. */
export function approverOf({ context: { userPath, actor } }: Pick<ExchangeRecord, 'context'>): string {
  return userPath ?? actor;
}

/**
 * Records that approval requests are answered, before any call. Nothing else of the exchange is being appended meanwhile.
 * @returns the calls that have not begun
 * @throws Refusal for an approval that is unknown or used; LogUnavailable
 */
export async function claimApprovals(
  request: ApprovingRequest,
  { log, sealers }: Requests,
): Promise<readonly ApprovedCall[]> {
  const { items, record, made } = request;
  const approved: ApprovedCall[] = [];
  const denied: ApprovedCall[] = [];
  for (const call of answeredCalls(items)) {
    const isKnown = !('unknown' in call) && (await isOwnCall(call, request, sealers));
    // A call without an approval is not made, also when the request states one.
    if (!isKnown && !call.isApproved) continue;
    if (!isKnown) throw unknownRequest('unknown' in call ? call.unknown : call.requestId);
    (call.isApproved ? approved : denied).push(call);
  }
  for (const { requestId } of denied) {
    if (approved.some((one) => one.requestId === requestId)) throw refusals.approvalUsed(requestId);
    // The input repeats it in every later request.
    const use = await newestUse(requestId, log);
    if (use?.approved === false || (use === undefined && (await claim(requestId, record, false)))) continue;
    const { approved: isApproved } = (await newestUse(requestId, log)) ?? {};
    if (isApproved !== false) throw refusals.approvalUsed(requestId);
  }
  for (const { requestId } of approved) {
    if (await claim(requestId, record, true)) continue;
    const use = await newestUse(requestId, log);
    // A response that is continued has claimed its own.
    if (use?.exchangeId !== record.id || use.approved === false) throw refusals.approvalUsed(requestId);
  }
  const begun = new Set(made?.items.map((item) => item['approval_request_id']));
  return approved.filter(({ requestId }) => !begun.has(requestId));
}

/** Whether the gateway has made the request, for this server and this owner. @throws Refusal without its server */
async function isOwnCall(
  { requestId, label, name, arguments: args, isApproved }: ApprovedCall,
  { servers, record, find }: ApprovingRequest,
  sealers: SealerSource,
): Promise<boolean> {
  const server = servers.find((one) => one.label === label);
  if (server === undefined) {
    if (!isApproved) return false;
    const message = `The approved call of '${name}' needs the MCP server '${label}' among the tools.`;
    throw refusals.invalidRequest(message, 'tools');
  }
  const asked = { owner: approverOf(record), slug: server.slug, tool: name, arguments: args };
  const isOwn = isOwnRequest(requestId, asked, sealers);
  if (isOwn !== 'for the tool') return isOwn;
  const stored = (await find(requestId))?.item;
  return stored?.['type'] === 'mcp_approval_request' && stored['name'] === name && stored['arguments'] === args;
}

function unknownRequest(id: string) {
  const message =
    `The approval request '${id}' is neither in the input nor in the turns before it, as the gateway has made it ` +
    'for this user path and server.';
  return refusals.invalidRequest(message, 'input');
}

function claim(requestId: string, record: ExchangeRecord, isApproved: boolean): Promise<boolean> {
  const facts = { exchangeId: record.id, ...(!isApproved && { approved: false as const }) };
  const event = toolApprovalUsed.create(facts, record.context);
  return record.flushIf({
    ...{ stream: streamName('tool_approval', requestId), events: [event], expectedRevision: 'noStream' },
  });
}

async function newestUse(requestId: string, log: Requests['log']) {
  const event = await newestEvent(streamName('tool_approval', requestId), log);
  return event === undefined ? undefined : toolApprovalUsed.data.parse(event.data);
}
