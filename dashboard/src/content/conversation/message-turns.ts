/** Messages and items, in requests and in JSON answers, as turns. */
import { childrenOf, elementsOf, type JsonNode, kindOf, memberOf, stringOf } from '../json/json-document.ts';
import { pathOf } from '../json/json-path.ts';
import type { Sliced } from '../sliced.ts';
import { contentParts, errorParts, othersOf, partsOf } from './content-parts.ts';
import type { NamedNode, Part, PlacedPart, Turn } from './turn.ts';

export type Origin = Turn['origin'];

export function turnOf(origin: Origin, role: string, parts: readonly PlacedPart[], rest: Partial<Turn> = {}): Turn {
  return { origin, role, parts, name: undefined, choice: undefined, ending: undefined, others: [], ...rest };
}

const chatMembers = ['role', 'content', 'name', 'tool_calls', 'tool_call_id', 'function_call', 'refusal', 'audio'];
const reasoningMembers = ['reasoning_content', 'reasoning'];

/** A message of Chat Completions. */
export function chatTurn(origin: Origin, message: JsonNode, rest: Partial<Turn> = {}): Turn {
  const role = stringOf(memberOf(message, 'role')) ?? 'message';
  const content = contentParts(memberOf(message, 'content'));
  const texts = reasoningMembers
    .map((name) => memberOf(message, name))
    .filter((node): node is JsonNode => node !== undefined && kindOf(node) === 'string')
    .slice(0, 1)
    .map((node): PlacedPart => ({ part: { kind: 'reasoning', text: stringOf(node) ?? '' }, path: pathOf(node) }));
  const parts = [
    ...texts,
    ...(role === 'tool' || role === 'function' ? [resultOf(message, content)] : content),
    ...refusalParts(memberOf(message, 'refusal')),
    ...audioParts(memberOf(message, 'audio')),
    ...elementsOf(memberOf(message, 'tool_calls')).map(chatToolCall),
    ...[memberOf(message, 'function_call')]
      .filter((call) => call !== undefined && kindOf(call) === 'object')
      .map(legacyCall),
  ];
  const known = texts.length > 0 ? [...chatMembers, ...reasoningMembers] : chatMembers;
  return turnOf(origin, role, parts, {
    name: stringOf(memberOf(message, 'name')),
    others: othersOf(message, known),
    ...rest,
  });
}

function resultOf(message: JsonNode, content: readonly PlacedPart[]): PlacedPart {
  const part: Part = {
    kind: 'tool result',
    callId: stringOf(memberOf(message, 'tool_call_id')) ?? stringOf(memberOf(message, 'name')),
    failed: false,
    parts: content.map((one) => one.part),
  };
  return { part, path: pathOf(memberOf(message, 'content') ?? message) };
}

function refusalParts(refusal: JsonNode | undefined): PlacedPart[] {
  const text = stringOf(refusal);
  return text === undefined || refusal === undefined
    ? []
    : [{ part: { kind: 'refusal', text }, path: pathOf(refusal) }];
}

function audioParts(audio: JsonNode | undefined): PlacedPart[] {
  if (audio === undefined || kindOf(audio) !== 'object') return [];
  const base64 = stringOf(memberOf(audio, 'data'));
  const id = stringOf(memberOf(audio, 'id'));
  const media =
    base64 !== undefined
      ? ({ kind: 'data', mediaType: 'audio', base64 } as const)
      : id === undefined
        ? ({ kind: 'none' } as const)
        : ({ kind: 'file', id } as const);
  const transcript = stringOf(memberOf(audio, 'transcript'));
  const part: Part = { kind: 'audio', media, name: undefined, ...(transcript === undefined ? {} : { transcript }) };
  return [{ part, path: pathOf(audio) }];
}

function chatToolCall(call: JsonNode): PlacedPart {
  const called = memberOf(call, 'function') ?? memberOf(call, 'custom');
  const part: Part = {
    kind: 'tool call',
    id: stringOf(memberOf(call, 'id')),
    name: stringOf(memberOf(called, 'name')) ?? '',
    arguments: stringOf(memberOf(called, 'arguments')) ?? stringOf(memberOf(called, 'input')) ?? '',
  };
  return { part, path: pathOf(call) };
}

function legacyCall(call: JsonNode | undefined): PlacedPart {
  const name = stringOf(memberOf(call, 'name')) ?? '';
  const part: Part = { kind: 'tool call', id: undefined, name, arguments: stringOf(memberOf(call, 'arguments')) ?? '' };
  return { part, path: call === undefined ? undefined : pathOf(call) };
}

/** A message of Anthropic Messages. Results of tools are sent by the user role; they get a turn of their own. */
export function messagesTurns(origin: Origin, message: JsonNode, rest: Partial<Turn> = {}): Turn[] {
  const role = stringOf(memberOf(message, 'role')) ?? 'message';
  const others = othersOf(message, ['role', 'content']);
  const turns: Turn[] = [];
  let parts: PlacedPart[] = [];
  for (const one of contentParts(memberOf(message, 'content'))) {
    const partRole = one.part.kind === 'tool result' && role === 'user' ? 'tool' : role;
    if (turns.at(-1)?.role === partRole) parts.push(one);
    else {
      parts = [one];
      turns.push(turnOf(origin, partRole, parts, rest));
    }
  }
  if (turns.length === 0) return [turnOf(origin, role, [], { others, ...rest })];
  return turns.map((turn, index) => (index === 0 ? { ...turn, others: [...others, ...turn.others] } : turn));
}

const MESSAGES_BETWEEN_YIELDS = 50;

/** The turns of every element of a list. */
export function* turnsOfEach(
  list: JsonNode | undefined,
  read: (node: JsonNode, index: number) => readonly Turn[],
): Sliced<Turn[]> {
  const turns: Turn[] = [];
  if (list === undefined || kindOf(list) !== 'array') return turns;
  let index = 0;
  for (const node of childrenOf(list)) {
    turns.push(...read(node, index));
    index += 1;
    if (index % MESSAGES_BETWEEN_YIELDS === 0) yield;
  }
  return turns;
}

/** Items of the Responses API: messages, calls, their outputs, reasoning. Items of one role that follow each other are one turn. */
export function* itemTurns(origin: Origin, list: JsonNode | undefined): Sliced<Turn[]> {
  const turns: Turn[] = [];
  /** The parts and other members of the last turn. */
  let parts: PlacedPart[] = [];
  let others: NamedNode[] = [];
  if (list === undefined || kindOf(list) !== 'array') return turns;
  let read = 0;
  for (const item of childrenOf(list)) {
    read += 1;
    if (read % MESSAGES_BETWEEN_YIELDS === 0) yield;
    const turn = itemTurn(origin, item);
    const last = turns.at(-1);
    if (last !== undefined && last.role === turn.role && (turn.role === 'assistant' || turn.role === 'tool')) {
      parts.push(...turn.parts);
      others.push(...turn.others);
      turns[turns.length - 1] = { ...last, ending: turn.ending ?? last.ending };
    } else {
      parts = [...turn.parts];
      others = [...turn.others];
      turns.push({ ...turn, parts, others });
    }
  }
  return turns;
}

/** One item as a turn of its own. */
export function itemTurn(origin: Origin, item: JsonNode): Turn {
  const type = stringOf(memberOf(item, 'type')) ?? (memberOf(item, 'role') === undefined ? '' : 'message');
  const status = stringOf(memberOf(item, 'status'));
  const ending = status === 'completed' ? undefined : status;
  if (type === 'message') {
    const others = othersOf(item, ['type', 'role', 'content', 'id', 'status']);
    return turnOf(origin, stringOf(memberOf(item, 'role')) ?? 'message', contentParts(memberOf(item, 'content')), {
      ending,
      others,
    });
  }
  const path = pathOf(item);
  const parts = partsOf(item).map((part) => ({ part, path }));
  return turnOf(origin, roleOfItem(type), parts, { ending });
}

function roleOfItem(type: string): string {
  if (type.endsWith('_output')) return 'tool';
  return type === 'reasoning' || type.endsWith('_call') ? 'assistant' : 'item';
}

/** A prompt of completions or an input of embeddings: texts, or lists of token ids. */
export function* inputTurns(input: JsonNode | undefined, role: string): Sliced<Turn[]> {
  if (input === undefined) return [];
  if (kindOf(input) !== 'array') return [turnOf('request', role, contentParts(input))];
  const [first] = childrenOf(input);
  if (first !== undefined && kindOf(first) === 'number') return [turnOf('request', role, [tokens(input)])];
  return yield* turnsOfEach(input, (one) => [
    turnOf('request', role, kindOf(one) === 'string' ? contentParts(one) : [tokens(one)]),
  ]);
}

function tokens(node: JsonNode): PlacedPart {
  const isList = kindOf(node) === 'array';
  const label = isList ? `${node.document.childCounts[node.index]} token ids` : kindOf(node);
  return { part: { kind: 'json', label, node }, path: pathOf(node) };
}

/** The turn of an error in an answer; undefined when there is none. */
export function errorTurn(root: JsonNode | undefined): Turn | undefined {
  const error = memberOf(root, 'error');
  if (error === undefined || kindOf(error) === 'null') return undefined;
  return turnOf('answer', 'error', errorParts(error), { others: othersOf(error, ['message']) });
}
