/**
 * Calls of tools: each is an exchange on the record, with the checks of a model request. The call is on disk before its server
 * gets it, and the answer before the client does. A call without an answer on record is never made again.
 */
import type { OpenExchangeTracker } from '../commands/exchange/background/open-exchange-tracker.ts';
import { ExchangeRecord } from '../commands/exchange/exchange-record.ts';
import { ExchangeGuard, refusalOfPhase } from '../commands/exchange/guarding/exchange-guard.ts';
import type { ExchangeFigures } from '../commands/exchange/pipeline/dependencies.ts';
import type { ExchangePolicy } from '../commands/exchange/policy.ts';
import * as ends from '../commands/exchange/record/end-events.ts';
import type { RefusedRequests } from '../commands/exchange/record/refused-requests.ts';
import type { GuardedBody } from '../commands/guardrails/body/body-texts.ts';
import { restoreValues } from '../commands/guardrails/body/restore-values.ts';
import { nanoOf } from '../commands/limits/budget.ts';
import type { Admission, RequestReservation } from '../commands/model-request/admission.ts';
import type { Caller, EndReason, ModelRequest } from '../commands/model-request/model-request.ts';
import { earlyEnd } from '../commands/model-request/upstream-refusals.ts';
import { unknownUsage } from '../commands/model-request/usage.ts';
import { PRICE_PER_CALL } from '../commands/pricing/pricing.ts';
import { Refusal, refusals } from '../commands/refusal.ts';
import { seesEverything } from '../commands/visibility.ts';
import { costReserved, requestReceived } from '../events/catalogue/exchange.ts';
import { targetOfTool, toolAnswered, toolCalled } from '../events/catalogue/mcp.ts';
import { type EventLog, EventTooLarge, LogUnavailable } from '../events/log.ts';
import { isObject } from '../json/is-object.ts';
import { McpError, UpstreamFailure } from './json-rpc.ts';
import { isToolAllowed, type McpServer, type McpServers } from './mcp-server.ts';
import { entryName } from './server-lists.ts';
import { MAX_MESSAGE_BYTES } from './server-transports.ts';
import type { ToolDefinitions } from './tool-definitions.ts';
import { toolArguments, toolError, toolResult, withClosedBlobs, withOpenBlobs } from './tool-texts.ts';
import type { CallToolResult, ToolCall, UpstreamRequests } from './upstreams.ts';

export interface ToolCallsParts {
  readonly log: EventLog;
  /** Id of this gateway. */
  readonly gateway: string;
  readonly servers: Pick<McpServers, 'visibleTo'>;
  readonly definitions: Pick<ToolDefinitions, 'isWithheld'>;
  readonly admission: Pick<Admission, 'admit'>;
  policyOf(request: Pick<ModelRequest, 'caller'>, first: undefined): ExchangePolicy;
  readonly open: Pick<OpenExchangeTracker, 'begun' | 'over' | 'leftOpen'>;
  readonly refused: Pick<RefusedRequests, 'recordsAlone'>;
  newId(): string;
  /** Called once for every call, after it ended. */
  ended(figures: ExchangeFigures): void;
  /** Called with unexpected errors. */
  failed(error: unknown): void;
}

/** The endpoint in reports and limits. */
export const MCP_ENDPOINT = '/mcp';
/** An event has so much beside its body. */
const BESIDE_BODY_BYTES = 1024 * 1024;

/** One call while it runs. */
interface RunningCall {
  readonly call: ToolCall;
  readonly record: ExchangeRecord;
  readonly policy: ExchangePolicy;
  /** Nano-dollars; 0: the call has no price. */
  readonly price: number;
  reservation: RequestReservation | undefined;
  /** Whether it counts in the rate limits: guardrails evaluated it, or its server was called. */
  isCounted: boolean;
  /** Whether the server got the call, which is charged, with and without an answer. */
  isSent: boolean;
}

/** What the client gets, and the status that represents it. */
interface Ended {
  readonly status: number;
  readonly outcome: CallToolResult | Error;
}

export class ToolCalls {
  readonly #parts: ToolCallsParts;

  constructor(parts: ToolCallsParts) {
    this.#parts = parts;
  }

  /** Whether guardrails apply to calls of the caller. */
  isGuarded(caller: Caller): boolean {
    return this.#parts.policyOf({ caller }, undefined).guardrails !== undefined;
  }

  /** @throws Refusal, McpError */
  async call(call: ToolCall, session: UpstreamRequests): Promise<CallToolResult> {
    const { log, newId, open, ended } = this.#parts;
    const { server, tool, request } = call;
    const { caller, requestId, causationId, traceparent } = request;
    const context = { actor: caller.actor, userPath: caller.userPath, requestId, causationId, traceparent };
    const record = new ExchangeRecord(log, newId(), context);
    open.begun(record.stream);
    const policy = this.#parts.policyOf(request, undefined);
    const price = nanoOf(server.pricePerCall ?? 0) ?? 0;
    const running: RunningCall = {
      ...{ call, record, policy, price, reservation: undefined, isCounted: false, isSent: false },
    };
    let isRecorded = true;
    let end: Ended;
    try {
      end = { status: 200, outcome: await this.#run(running, session) };
    } catch (error) {
      if (error instanceof McpError) end = { status: 200, outcome: error };
      else {
        const refused = await this.#refuse(running, error);
        ({ isRecorded } = refused);
        end = { status: refused.refusal.status, outcome: refused.refusal };
      }
    }
    running.reservation?.settle(isRecorded, running.isCounted);
    open.over(record.stream);
    ended({
      ...{ endpoint: MCP_ENDPOINT, provider: providerOf(server), model: tool, stream: false },
      ...{ status: end.status, durationMs: record.elapsed(), firstByteMs: undefined, usage: undefined },
    });
    if (end.outcome instanceof Error) throw end.outcome;
    return end.outcome;
  }

  /** @throws Refusal, McpError, LogUnavailable, EventTooLarge */
  async #run(running: RunningCall, session: UpstreamRequests): Promise<CallToolResult> {
    const { call, record, policy } = running;
    this.#noteReceived(running);
    await this.#check(call);
    if (policy.problem !== undefined) throw refusals.workflowUnusable(policy.workflow?.scope ?? '', policy.problem);
    running.reservation = await this.#admit(running);
    const guard = this.#guardOf(running);
    running.isCounted = guard !== undefined;
    const given = { name: call.tool, arguments: call.arguments };
    const sent = guard === undefined ? given : await guardArguments(guard, given, running);
    if ('content' in sent) return this.#answerOwn(running, sent);
    await this.#record(running, sent.arguments === given.arguments ? undefined : sent.arguments);
    call.begun?.(record.id);
    const answer = await this.#send(running, sent.arguments, session, guard);
    const result = guard === undefined ? answer : await guardResult(guard, answer, running);
    return this.#complete(running, result, result === answer ? undefined : result);
  }

  #noteReceived({ call, record, policy }: RunningCall): void {
    const { server, tool, request, members, itemId } = call;
    const { method, path, headers, clientIp, clientSubject, caller, labels, sessionId } = request;
    const { capture, workflow } = policy;
    const facts = {
      ...{ dialect: 'mcp' as const, method, path, headers, model: `${server.slug}/${tool}`, stream: false },
      ...{ clientIp, clientSubject, gateway: this.#parts.gateway, authMethod: caller.authMethod, capture, workflow },
      ...{ labels, sessionId },
      toolCall: { argumentBytes: call.arguments === undefined ? 0 : jsonOf(call.arguments).length, itemId },
    };
    const body = capture === 'full' ? jsonOf({ ...members, name: tool, arguments: call.arguments }) : undefined;
    record.noteReceived(requestReceived.create(facts, record.context, body));
  }

  /** @throws Refusal */
  async #check({ server, tool, listed, request: { caller } }: ToolCall): Promise<void> {
    const { servers, definitions } = this.#parts;
    if (!maySee(servers, caller, server)) throw refusals.mcpServerNotFound(server.slug);
    if (!isToolAllowed(server, tool)) throw refusals.toolNotFound(tool);
    if (definitions.isWithheld(server, tool)) throw refusals.toolWithheld(tool, server.slug);
    if (listed === undefined || (!server.pin && server.allowedTools === undefined)) return;
    // The definition of a tool that the server does not list was never recorded or accepted.
    const tools = await listed().catch((error: unknown) => {
      if (!(error instanceof McpError)) throw error;
      throw refusals.badAnswer(server.slug, `The MCP server '${server.slug}' does not list its tools.`, 'mcp_error');
    });
    if (!tools.some((one) => entryName(one) === tool)) throw refusals.toolNotFound(tool);
  }

  /** @throws Refusal 429 */
  async #admit({ call, record, policy, price }: RunningCall): Promise<RequestReservation | undefined> {
    const { caller, labels } = call.request;
    const admitted = {
      caller,
      labels,
      endpoint: MCP_ENDPOINT,
      parsedRequest: { model: '', provider: undefined, stream: false, json: {} },
      candidates: [],
      bodyBytes: 0,
      exchangeId: record.id,
      checksBudgets: policy.checksBudgets && price > 0,
    };
    const reservation = await this.#parts.admission.admit(admitted, call.signal);
    if (price === 0 || reservation === undefined) return reservation;
    try {
      reservation.reserve(price, price);
    } catch (error) {
      reservation.settle(false, false);
      throw error;
    }
    return reservation;
  }

  #guardOf({ call, record, policy }: RunningCall): ExchangeGuard | undefined {
    if (policy.guardrails === undefined) return undefined;
    const { server, tool, request, signal } = call;
    const { requestId, caller, labels = [] } = request;
    return new ExchangeGuard({
      steps: policy.guardrails,
      record,
      keepBodies: policy.capture === 'full',
      facts: {
        ...{ requestId, exchangeId: record.id, userPath: caller.userPath ?? '/', model: tool },
        ...{ provider: providerOf(server), labels },
      },
      placeholders: [],
      signal: () => signal,
    });
  }

  /** Records the call durably. @throws Refusal 429 where the order of the log decides about budgets; LogUnavailable */
  async #record({ call, record, policy, reservation }: RunningCall, changed: unknown): Promise<void> {
    const { server, tool, signal } = call;
    const reserved = reservation?.onLog?.next();
    if (reserved !== undefined) record.note(costReserved.create(reserved, record.context));
    const facts = { server: server.slug, tool, transport: server.transport };
    const body = changed === undefined || policy.capture !== 'full' ? undefined : jsonOf(changed);
    record.note(toolCalled.create(facts, record.context, body));
    const appended = await record.flush('durable');
    if (reserved !== undefined && appended !== undefined) {
      const overBudget = await reservation?.onLog?.decided(appended.position);
      if (overBudget !== undefined) throw overBudget;
    }
    if (signal.aborted) throw earlyEnd(endReasonOf(signal)).refusal;
  }

  /** The result as the server sent it, which is noted. @throws Refusal; McpError, whose record is on disk */
  async #send(
    running: RunningCall,
    args: unknown,
    session: UpstreamRequests,
    guard: ExchangeGuard | undefined,
  ): Promise<CallToolResult> {
    const { call, record, policy } = running;
    const { server, tool, signal, members } = call;
    const params = { ...members, name: tool, ...(args !== undefined && { arguments: args }) };
    const started = performance.now();
    record.called = true;
    running.isCounted = true;
    const sent = (isSent: boolean) => {
      running.isSent = isSent;
    };
    const options = { signal, timeoutMs: server.toolTimeoutSeconds * 1000, sent };
    const facts = (isError: boolean, bytes: number) => {
      const durationMs = Math.round((performance.now() - started) * 1000) / 1000;
      return { server: server.slug, tool, isError, bytes, durationMs };
    };
    try {
      const result = resultIn(await session.request('tools/call', params, options), server);
      const json = jsonOf(result);
      const { maxEventBytes } = this.#parts.log.capabilities;
      const limit = Math.min(MAX_MESSAGE_BYTES, maxEventBytes - BESIDE_BODY_BYTES);
      if (json.length > limit) throw answerTooLarge(server, limit);
      const kept = policy.capture === 'full' ? json : undefined;
      record.note(toolAnswered.create(facts(result.isError === true, json.length), record.context, kept));
      return result;
    } catch (error) {
      if (!(error instanceof McpError)) throw failureOf(error, call, guard?.guardsAnswers === true);
      const { code, message } = error;
      record.note(toolAnswered.create({ ...facts(true, 0), error: { code, message } }, record.context));
      const passed = guard === undefined ? error : await guardError(guard, error, running);
      if (!(passed instanceof McpError)) return passed;
      const refusal = new Refusal({
        ...{ status: 502, type: 'provider_error', code: 'tool_error', message: passed.message },
        provider: providerOf(server),
      });
      ends.noteFailed(record, refusal, { status: 200, reason: 'provider_error', chunks: 0 });
      await record.flush('durable');
      throw passed;
    }
  }

  /** Records the end durably. @param changed what the client gets, where it differs from the answer. @throws LogUnavailable */
  async #complete(running: RunningCall, result: CallToolResult, changed: CallToolResult | undefined) {
    const { call, record, policy } = running;
    const answer = changed === undefined || policy.capture !== 'full' ? undefined : jsonOf(changed);
    noteCompleted(running, 1, answer);
    this.#charge(running, call.server);
    await record.flush('durable');
    return result;
  }

  /** A guardrail answered in place of the tool. */
  async #answerOwn(running: RunningCall, result: CallToolResult): Promise<CallToolResult> {
    const { record, policy } = running;
    noteCompleted(running, 0, policy.capture === 'full' ? jsonOf(result) : undefined);
    await record.flush('durable');
    return result;
  }

  /** Where the workflow records no usage, nothing is charged either. */
  #charge({ call, record, policy, price, reservation }: RunningCall, server: McpServer): void {
    if (price === 0 || !policy.recordsUsage) return;
    const totalCost = String(price);
    const spent = {
      ...targetOfTool(server.slug, call.tool),
      ...{ endpoint: MCP_ENDPOINT, usage: unknownUsage },
    };
    const rates = { per_request: server.pricePerCall ?? 0 };
    const cost = { inputCost: null, outputCost: null, totalCost, price: rates, priceSource: PRICE_PER_CALL };
    ends.noteUsage(record, spent, cost, call.request);
    reservation?.charge({ usage: unknownUsage, totalCost, isFailed: false });
  }

  /** Records the end of a call without a result. Never rejects. */
  async #refuse(running: RunningCall, error: unknown): Promise<{ refusal: Refusal; isRecorded: boolean }> {
    const { call, record } = running;
    const { log, open, refused, failed } = this.#parts;
    const { maxEventBytes } = log.capabilities;
    const { called } = record;
    if (error instanceof EventTooLarge) record.withdraw(maxEventBytes / 2);
    const refusal = refusalOf(error, called, maxEventBytes);
    if (refusal.type === 'internal_error' && refusal.status === 500) failed(error);
    if (error instanceof LogUnavailable) {
      if (record.flushed) open.leftOpen(record.stream, { wasRefused: true });
      return { refusal, isRecorded: false };
    }
    if (!record.flushed && ends.isOfRequest(refusal)) {
      const facts = { caller: call.request.caller, endpoint: MCP_ENDPOINT, durationMs: record.elapsed() };
      if (!refused.recordsAlone(facts, refusal)) return { refusal, isRecorded: false };
    }
    const isGone = called && call.signal.aborted && call.signal.reason === 'client_gone';
    const reason = reasonOf(refusal, call.signal);
    if (isGone) ends.noteDisconnected(record, { chunks: 0, bytes: 0, firstByteMs: undefined });
    else if (!called) ends.noteRefused(record, refusal);
    else ends.noteFailed(record, refusal, { status: refusal.status, reason, chunks: 0 });
    if (running.isSent) this.#charge(running, call.server);
    try {
      await record.flush('durable');
      return { refusal, isRecorded: true };
    } catch (lost) {
      open.leftOpen(record.stream, { wasRefused: true });
      return { refusal: refusalOf(lost, called, maxEventBytes), isRecorded: false };
    }
  }
}

/** Whether the caller may use the server. */
export function maySee(servers: Pick<McpServers, 'visibleTo'>, caller: Caller, { slug, enabled }: McpServer): boolean {
  if (!enabled) return false;
  return seesEverything(caller.visibility) || servers.visibleTo(caller.userPath).some((one) => one.slug === slug);
}

/** How a server is named among providers. */
function providerOf({ slug }: McpServer): string {
  return targetOfTool(slug, '').provider;
}

function noteCompleted({ call, record }: RunningCall, attempt: number, answer: Buffer | undefined): void {
  const received = { chunks: 0, bytes: answer?.length ?? 0, firstByteMs: undefined };
  const facts = { status: 200, attempt, provider: providerOf(call.server), model: call.tool, finishReason: null };
  ends.noteCompleted(record, received, { ...facts, ...(answer !== undefined && { answer }) });
}

/** The arguments as the guardrails let them pass, or the result of a guardrail. @throws Refusal */
async function guardArguments(
  guard: ExchangeGuard,
  given: { readonly name: string; readonly arguments: unknown },
  { record }: RunningCall,
): Promise<{ readonly arguments: unknown } | CallToolResult> {
  if (guard.steps.prompt.length === 0) return given;
  const outcome = await guard.prompt(given, toolArguments);
  const refusal = refusalOfPhase(outcome, 'prompt');
  if (refusal !== undefined) {
    // The verdict is recorded with the whole call, however often the caller is refused.
    await record.flush('written');
    throw refusal;
  }
  const { decision, body } = outcome;
  if (decision.action === 'respond') return textResult(decision.text);
  return isObject(body) ? { arguments: body['arguments'] } : given;
}

/** @throws Refusal */
async function guardResult(guard: ExchangeGuard, answer: CallToolResult, running: RunningCall) {
  if (!guard.guardsAnswers) return answer;
  const opened = withOpenBlobs(answer);
  const guarded = await guardAnswer(guard, opened, toolResult, running);
  if ('own' in guarded) return guarded.own;
  const closed = guarded.body === opened ? answer : withClosedBlobs(guarded.body);
  return closed === answer || !isObject(closed) ? answer : asResult(closed);
}

/** The error as the guardrails let it pass, or the result of a guardrail. @throws Refusal */
async function guardError(guard: ExchangeGuard, error: McpError, running: RunningCall) {
  if (!guard.guardsAnswers) return error;
  const { code, message, data } = error;
  const guarded = await guardAnswer(guard, { message, data }, toolError, running);
  if ('own' in guarded) return guarded.own;
  return isObject(guarded.body) ? new McpError(code, String(guarded.body['message']), guarded.body['data']) : error;
}

/** @throws Refusal */
async function guardAnswer(
  guard: ExchangeGuard,
  body: unknown,
  of: GuardedBody,
  { record }: RunningCall,
): Promise<{ readonly body: unknown } | { readonly own: CallToolResult }> {
  const outcome = await guard.answer('response', guard.steps.response, 1, { body, of });
  const refusal = refusalOfPhase(outcome, 'response');
  if (refusal !== undefined) {
    await record.flush('written');
    throw refusal;
  }
  if (outcome.decision.action === 'respond') return { own: textResult(outcome.decision.text) };
  return { body: restoreValues(outcome.body, guard.placeholders) };
}

function textResult(text: string): CallToolResult {
  return { content: [{ type: 'text', text }] };
}

/** @throws UpstreamFailure */
function resultIn(result: unknown, { slug }: McpServer): CallToolResult {
  if (isObject(result)) return asResult(result);
  throw new UpstreamFailure('closed', `the server '${slug}' returned a result that is no object`);
}

function asResult({ content, ...others }: Readonly<Record<string, unknown>>): CallToolResult {
  return { content: content ?? [], ...others };
}

function jsonOf(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value) ?? 'null');
}

function endReasonOf({ reason }: AbortSignal): EndReason {
  return reason === 'client_gone' || reason === 'gateway_stopping' ? reason : 'cancelled';
}

function answerTooLarge(server: McpServer, limit: number): Refusal {
  const message = `The MCP server '${server.slug}' returned a result of more than ${limit} bytes.`;
  return new Refusal({
    ...{ status: 502, type: 'provider_error', code: 'answer_too_large', message, provider: providerOf(server) },
    retryHelps: false,
  });
}

const failureCodes = {
  unreachable: 'mcp_server_unreachable',
  'session lost': 'mcp_server_unreachable',
  closed: 'mcp_server_disconnected',
  'too large': 'answer_too_large',
  timeout: 'tool_timeout',
} as const;

/** @returns a Refusal for what the server did not answer */
function failureOf(error: unknown, { server, signal }: ToolCall, isGuarded: boolean): unknown {
  if (!(error instanceof UpstreamFailure)) return error;
  if (error.kind === 'cancelled') return earlyEnd(endReasonOf(signal)).refusal;
  return serverFailure(error, server, isGuarded ? error.summary : error.message);
}

export function serverFailure(failure: UpstreamFailure, server: McpServer, why = failure.message): Refusal {
  const { kind } = failure;
  if (kind === 'cancelled') return earlyEnd('cancelled').refusal;
  return new Refusal(
    {
      ...{ status: kind === 'timeout' ? 504 : 502, type: 'provider_error', code: failureCodes[kind] },
      message: `The MCP server '${server.slug}' could not answer: ${why}`,
      provider: providerOf(server),
      // Whether the tool ran is not known.
      ...(kind !== 'unreachable' && { retryHelps: false }),
    },
    failure,
  );
}

function refusalOf(error: unknown, called: boolean, maxEventBytes: number): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof EventTooLarge) {
    return refusals.inputNotRecordable('The call, as it would be sent, is too large to be recorded', maxEventBytes);
  }
  if (error instanceof LogUnavailable) {
    return called ? refusals.answerNotRecorded(error) : refusals.logUnavailable(error);
  }
  return refusals.internal(error);
}

function reasonOf(refusal: Refusal, signal: AbortSignal) {
  if (signal.aborted) return signal.reason === 'gateway_stopping' ? 'gateway_stopped' : 'cancelled';
  if (refusal.code === 'budget_exceeded') return 'budget_exceeded';
  if (refusal.type === 'guardrail_error' || refusal.code === 'plugin_failure') return 'guardrail';
  return refusal.type === 'provider_error' ? 'provider_error' : 'internal_error';
}
