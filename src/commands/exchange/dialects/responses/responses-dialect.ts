/** `POST /v1/responses`: native where the provider has it, otherwise translated to chat completions and back. */
import type { EventLog } from '../../../../events/log.ts';
import { isObject } from '../../../../json/is-object.ts';
import { rewriteMembers } from '../../../../providers/translate/json.ts';
import { isNamedOnly } from '../../../../providers/translate/responses-to-chat/items-to-chat-messages.ts';
import { isCarriedItem, plainReasoning } from '../../../../providers/translate/responses-to-chat/reasoning.ts';
import {
  chatRequestFromResponses,
  ofNewInput,
  withResponsesNames,
} from '../../../../providers/translate/responses-to-chat/request.ts';
import {
  chatTools,
  unsupportedToolsHeader,
  withoutUnsupportedTools,
} from '../../../../providers/translate/responses-to-chat/tools.ts';
import { providerType } from '../../../../providers/types.ts';
import { conversationIn, type TurnInput, turnWrites } from '../../../conversations/turn.ts';
import { isRouteMissing } from '../../../model-request/forward-operations.ts';
import type { ParsedRequest } from '../../../model-request/model-request.ts';
import type { Target } from '../../../model-request/routing-types.ts';
import { refusals, refusedInTranslation } from '../../../refusal.ts';
import { type FindItem, type FoundItem, type ResponseArchive, resolvedInput } from '../../../responses/archive.ts';
import {
  type CreateResponseRequest,
  parseCreateResponse,
  previousResponseOf,
  responseIdOf,
  responseShell,
  type ShellFacts,
} from '../../../responses/create-request.ts';
import {
  asFunctionCalls,
  refusedApproval,
  refusedGatewayTool,
  toolServersIn,
  usesGatewayTools,
} from '../../../responses/gateway-tools.ts';
import { replayed, truncatedInput } from '../../../responses/history.ts';
import { storedInputItems } from '../../../responses/input-items.ts';
import { seesEverything, type VisibilityScope } from '../../../visibility.ts';
import {
  type ExchangeDialect,
  hasMembers,
  memberChanges,
  type PastAttempt,
  type PlanInput,
  readWith,
} from '../../dialect.ts';
import type { Plan } from '../../plan.ts';
import { outputOf } from '../../record/end-events.ts';
import { AnswerStream } from '../../response-stream.ts';
import { ChatAnswerReader } from '../chat/answer.ts';
import { chatAnswerFacts, chatReader, upstreamChat } from '../chat/chat-dialect.ts';
import { ResponsesAnswer, ResponsesFromChat } from './answer.ts';
import { loadEarlierTurns, turnsFor, wholeInput } from './earlier-turns.ts';
import { replyOf } from './model-turn.ts';
import { ToolLoop, type ToolLoopOptions } from './tool-loop.ts';

/** Statuses of a response that succeeded: it has output, and no more will follow. */
const SUCCEEDED: ReadonlySet<string> = new Set(['completed', 'incomplete']);

export interface ResponsesDialectOptions {
  readonly archive: ResponseArchive;
  readonly log: EventLog;
  /** Finds the stored item that a caller refers to by id. */
  readonly findItem: (visibility: VisibilityScope) => FindItem;
  /** Unix seconds. */
  readonly now: () => number;
  /** In tokens; undefined when it is not known. */
  readonly contextWindow: (target: Target) => number | undefined;
  /** Called when an answer showed whether a provider has `/v1/responses`. */
  readonly learned: (provider: string, supported: boolean) => void;
  /** Runs the tools of the gateway's MCP servers; undefined where no request is answered. */
  readonly toolLoop?: ToolLoopOptions | undefined;
}

export function createResponsesDialect(options: ResponsesDialectOptions): ExchangeDialect {
  const { archive, log, findItem, now, contextWindow, learned, toolLoop } = options;
  return {
    name: 'responses',
    endpoint: '/v1/responses',
    read(json) {
      const parsed = parseCreateResponse(json);
      if (!parsed.ok) return readWith(parsed);
      return readWith(refusedGatewayTool(parsed.request) ?? refusedApproval(parsed.request) ?? parsed);
    },
    runsTools: ({ json }) => usesGatewayTools(json),
    loadHistory: (input) => loadEarlierTurns(input, { archive, log }),
    async plan(input: PlanInput): Promise<Plan<AnswerStream>> {
      const { capabilities } = input.target.provider;
      const find = findItem(input.visibility);
      if (usesGatewayTools(input.original.json)) return withGatewayTools(input, find, now, toolLoop);
      const turns = await turnsFor(input, { archive });
      const window = contextWindow(input.target);
      if (capabilities.responses === 'no') return translated(input, turns, find, window, now);
      const plan = await native(input, turns, find, now);
      if (capabilities.responses === 'yes') return plan;
      return {
        ...plan,
        instead(refusal) {
          // A 404 for a model does not show whether the route exists.
          if (!isRouteMissing(refusal, input.target.model)) return undefined;
          input.target.provider.learnResponses(false);
          learned(input.target.provider.name, false);
          return translated(input, turns, find, window, now);
        },
      };
    },
    streamOfRecorded,
    inputItems: ({ json }, responseId) => JSON.stringify(storedInputItems(json.input, responseId)),
    keeps: ({ json }) => json.store !== false,
    turn({ json }, writer, { id: exchangeId, context, visibility, placeholders }) {
      const conversationId = conversationIn(json);
      const response = conversationId === undefined ? undefined : writer.response?.();
      if (conversationId === undefined || response === undefined || !SUCCEEDED.has(response.status)) return undefined;
      const responseId = response.id;
      const output = outputOf(response);
      const turn = {
        conversationId,
        exchangeId,
        responseId,
        input: json.input,
        output,
        context,
        visibility,
        placeholders,
      };
      return turnWrites(turn, log, findItem(visibility));
    },
    background({ original: parsedRequest, clientHeaders, target, record, createdAt }) {
      if (!runsInGateway(parsedRequest, target.provider.type)) return undefined;
      if (parsedRequest.json.store === false) {
        throw refusals.unsupportedParameter(
          'store',
          'a background response must be stored, because it is retrieved later',
        );
      }
      const id = responseIdOf(record.id);
      const isTranslated = target.provider.capabilities.responses === 'no';
      return {
        id,
        shell: shellOf(isTranslated ? chatRequestOf(parsedRequest, clientHeaders) : parsedRequest, {
          id,
          createdAt,
          model: target.model,
          provider: target.provider.name,
          status: 'queued',
        }),
      };
    },
  };
}

/**
 * Whether the gateway generates this response in the background, because its provider does not keep responses, or
 * because the gateway runs its tools.
 */
export function runsInGateway({ json }: ParsedRequest, type: string): boolean {
  return json.background === true && (usesGatewayTools(json) || providerType(type)?.responseLifecycle !== 'yes');
}

function streamOfRecorded(attempt: PastAttempt): AnswerStream {
  const { parsedRequest, exchangeId, createdAt, provider, providerType: type, model, dialect, now } = attempt;
  const facts = { id: responseIdOf(exchangeId), createdAt, model, provider: provider.name };
  if (dialect === 'responses') {
    const shell = () => shellOf(parsedRequest, facts);
    const providerRuns = parsedRequest.json.background === true && !runsInGateway(parsedRequest, type);
    const echo = echoOf(attempt);
    const answer = new ResponsesAnswer(provider, { echo, providerRuns, shell: () => ({ ...shell(), ...echo }) });
    return new AnswerStream(answer, answer);
  }
  const reader = new ChatAnswerReader(provider, chatReader(dialect, chatAnswerFacts(exchangeId, model, createdAt)));
  const shell = shellOf(chatRequestOf(parsedRequest, attempt.clientHeaders), facts);
  return new AnswerStream(reader, new ResponsesFromChat(shell, now));
}

/** The client's headers that change what a model behind chat completions gets. */
export function responsesHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  const drops = headers[unsupportedToolsHeader]?.trim().toLowerCase() === 'drop';
  return drops ? { [unsupportedToolsHeader]: 'drop' } : {};
}

/** The request as it is translated, and echoed in the response: without the tools that the client allows to drop. */
function chatRequestOf(parsedRequest: ParsedRequest, headers: Readonly<Record<string, string>>): ParsedRequest {
  if (!hasMembers(responsesHeaders(headers))) return parsedRequest;
  return { ...parsedRequest, json: withoutUnsupportedTools(parsedRequest.json) };
}

/**
 * Members of the response that the provider cannot know: the turns that the gateway put in front, and the gateway's
 * id.
 */
function echoOf({ parsedRequest, exchangeId, providerType: type, historyReplayed, isGuarded }: PastAttempt) {
  const echo: Record<string, unknown> = {};
  if (isGuarded) echo.instructions = parsedRequest.json.instructions ?? null;
  if (historyReplayed) echo.previous_response_id = previousResponseOf(parsedRequest);
  const conversation = conversationIn(parsedRequest.json);
  if (conversation !== undefined) echo.conversation = { id: conversation };
  if (runsInGateway(parsedRequest, type)) Object.assign(echo, { id: responseIdOf(exchangeId), background: true });
  return hasMembers(echo) ? echo : undefined;
}

async function native(
  planned: PlanInput,
  turns: TurnInput | undefined,
  find: FindItem,
  now: () => number,
): Promise<Plan<AnswerStream>> {
  const changes = await nativeChanges(planned, turns, find);
  return {
    kind: 'model',
    dialect: 'responses',
    body: hasMembers(changes) ? rewriteMembers(planned.body, changes) : planned.body,
    newStream: () => streamOfRecorded(attemptOf(planned, 'responses', turns, now)),
  };
}

/** The members that a provider with its own Responses API gets with other values than the client's, as JSON texts. */
async function nativeChanges(
  planned: PlanInput,
  turns: TurnInput | undefined,
  find: FindItem,
): Promise<Record<string, string | undefined>> {
  const { parsedRequest, target, merged } = planned;
  const changes = memberChanges(planned);
  if (runsInGateway(parsedRequest, target.provider.type)) changes.background = undefined;
  const { input: given, earlier } = turns ?? { input: parsedRequest.json.input, earlier: 0 };
  const stays = (found: FoundItem | undefined) => isKnownTo(planned, found);
  const whole = await resolvedInput(given, { find, stays, form: replayed, earlier });
  const input = Array.isArray(whole) ? asFunctionCalls(whole).items : whole;
  const isChanged = input !== parsedRequest.json.input || merged !== undefined;
  const fits = isChanged ? isUnderstoodNatively : (item: unknown) => !isCarriedItem(item);
  const sent = Array.isArray(input) && (isChanged || input.some(isCarriedItem)) ? input.filter(fits) : input;
  const isChecked = target.provider.capabilities.responseLifecycle === 'yes' && !seesEverything(planned.visibility);
  if (isChecked && Array.isArray(sent)) await checkNamedItems(sent, target, find);
  if (sent !== parsedRequest.json.input) changes.input = JSON.stringify(sent);
  if (turns !== undefined) changes.previous_response_id = undefined;
  if (conversationIn(parsedRequest.json) !== undefined) changes.conversation = undefined;
  return changes;
}

/**
 * Whether the provider can look up an item itself: an item of its own responses, or one that this gateway has not
 * stored. The owner of the latter is unknown, and a conversation has to hold the content of its items.
 */
function isKnownTo({ parsedRequest, target, visibility }: PlanInput, found: FoundItem | undefined): boolean {
  if (target.provider.capabilities.responseLifecycle !== 'yes') return false;
  if (found !== undefined) return found.provider === target.provider.name;
  return seesEverything(visibility) && conversationIn(parsedRequest.json) === undefined;
}

/**
 * Checks the items that the provider will look up by id: each must belong to an answer of that provider which the
 * caller may see.
 * @throws Refusal (404)
 */
async function checkNamedItems(input: readonly unknown[], { provider }: Target, find: FindItem): Promise<void> {
  for (const { id } of input.filter(isNamedOnly)) {
    if ((await find(id))?.provider !== provider.name) throw refusals.itemNotFound(id);
  }
}

/** Other providers can use reasoning only in the form that the model's provider encrypted. */
function isUnderstoodNatively(item: unknown): boolean {
  if (!isObject(item) || item.type !== 'reasoning') return true;
  return typeof item.encrypted_content === 'string' && !isCarriedItem(item);
}

/** @throws Refusal when a chat provider cannot honour the request */
async function translated(
  planned: PlanInput,
  turns: TurnInput | undefined,
  find: FindItem,
  contextWindow: number | undefined,
  now: () => number,
): Promise<Plan<AnswerStream>> {
  const { target, clientHeaders } = planned;
  const parsedRequest = chatRequestOf(planned.parsedRequest, clientHeaders);
  const { previous_response_id: _replayed, conversation: _ours, background: _here, ...request } = parsedRequest.json;
  const { input: given, earlier: before } = turns ?? { input: request.input, earlier: planned.merged?.earlier ?? 0 };
  const resolved = await resolvedInput(given, { find, earlier: before });
  const converted = Array.isArray(resolved) ? asFunctionCalls(resolved, before) : undefined;
  const { items: whole, earlier: first } = converted ?? { items: resolved, earlier: before };
  const isCut = request.truncation === 'auto' && contextWindow !== undefined && Array.isArray(whole);
  const cut = isCut ? truncatedInput(whole.filter(isObject), first, request, contextWindow) : undefined;
  const { input, earlier } = cut ?? { input: whole, earlier: first };
  const chat = chatRequestFromResponses(input === request.input ? request : { ...request, input }, {
    model: target.model,
    reasoningStyle: providerType(target.provider.type)?.reasoning ?? plainReasoning,
  });
  if (!chat.ok) throw refusedInTranslation(ofNewInput(chat.refusal, earlier));
  const upstream = upstreamChat(chat.body, target, parsedRequest.stream, withResponsesNames);
  return {
    kind: 'model',
    ...upstream,
    newStream: () => streamOfRecorded(attemptOf(planned, upstream.dialect, turns, now)),
  };
}

/** A request whose tools the gateway runs. @throws Refusal for servers that the caller cannot use */
async function withGatewayTools(
  planned: PlanInput,
  find: FindItem,
  now: () => number,
  options: ToolLoopOptions | undefined,
): Promise<Plan<AnswerStream>> {
  const { parsedRequest, original, target, record, body } = planned;
  if (options === undefined) throw new Error('the gateway runs no tools here');
  const servers = toolServersIn(original.json);
  for (const { slug, param } of servers) {
    const refusal = options.tools.refusal(slug, planned.caller, param);
    if (refusal !== undefined) throw refusal;
  }
  const { items: given, earlier, previousId } = await wholeInput(planned);
  const items = await resolvedInput(given, { find, earlier });
  const { provider, model } = target;
  const facts = { id: responseIdOf(record.id), createdAt: planned.createdAt, model, provider: provider.name };
  const isTranslated = provider.capabilities.responses === 'no';
  const shown = isTranslated ? chatRequestOf(original, planned.clientHeaders) : original;
  // Before the model is called.
  const others = isTranslated ? chatTools({ tools: shown.json.tools }) : undefined;
  if (others?.ok === false) throw refusedInTranslation(others.refusal);
  return {
    kind: 'model',
    dialect: 'responses',
    body,
    newStream: () => streamOfRecorded(attemptOf(planned, 'responses', undefined, now)),
    make(call, request) {
      const input = {
        ...{ items: Array.isArray(items) ? items : [], previousId, servers, target, record, find, now },
        recordsItems: (!call.stream || original.json.background === true) && planned.policy.capture === 'full',
        made: planned.made,
        json: { ...parsedRequest.json, model: parsedRequest.model },
        shell: { ...shellOf(shown, facts) },
      };
      return replyOf((signal) => new ToolLoop(options, input, request, signal), call, provider.name);
    },
  };
}

function attemptOf(
  { parsedRequest: sent, original: parsedRequest, clientHeaders, merged, target, record, createdAt }: PlanInput,
  dialect: string,
  turns: TurnInput | undefined,
  now: () => number,
): PastAttempt {
  const { provider } = target;
  const historyReplayed = turns !== undefined || merged !== undefined;
  return {
    parsedRequest,
    clientHeaders,
    exchangeId: record.id,
    createdAt,
    provider,
    providerType: provider.type,
    model: target.model,
    dialect,
    historyReplayed,
    isGuarded: sent !== parsedRequest,
    now,
  };
}

/** The response without any output: every member that the request determines. */
export function shellOf(parsedRequest: ParsedRequest, facts: ShellFacts) {
  return responseShell(parsedRequest.json as CreateResponseRequest, facts);
}

// `POST /v1/responses/input_tokens` and `/compact`: the provider counts or compacts the body of a new response.
// References in the body are resolved as for the response itself.

interface ResponsesBodyOptions {
  readonly archive: ResponseArchive;
  readonly log: EventLog;
  /** Finds the stored item that a caller refers to by id. */
  readonly findItem: (visibility: VisibilityScope) => FindItem;
}

/** @throws Refusal for earlier turns or items that are not found or not visible to the caller */
export async function responsesBodyChanges(
  input: PlanInput,
  { archive, log, findItem }: ResponsesBodyOptions,
): Promise<Record<string, string | undefined>> {
  const history = await loadEarlierTurns(input, { archive, log });
  const turns = await turnsFor({ ...input, history }, { archive });
  return nativeChanges(input, turns, findItem(input.visibility));
}
