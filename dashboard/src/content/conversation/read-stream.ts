/** A recorded stream of each dialect, assembled to the turns of the answer. */
import {
  childCountOf,
  elementsOf,
  type JsonNode,
  kindOf,
  memberOf,
  readJson,
  rootOf,
  scalarOf,
  stringOf,
} from '../json/json-document.ts';
import { runNow, type Sliced } from '../sliced.ts';
import { othersOf, partsOf } from './content-parts.ts';
import { errorTurn, itemTurn, itemTurns, turnOf } from './message-turns.ts';
import { type AnswerPart, endedWith } from './read-answer.ts';
import type { StreamFrame } from './sse-frames.ts';
import type { Dialect, NamedNode, Turn } from './turn.ts';
import { TurnBuilder } from './turn-builder.ts';

const FRAMES_BETWEEN_YIELDS = 20;

/** What has been assembled from the frames so far. */
export interface StreamAssembly {
  add(frame: StreamFrame): void;
  read(): AnswerPart & { readonly problems: readonly string[] };
}

/** An assembly that frames can be added to one by one, as for a stream that is replayed or still open. */
export function assembleStream(dialect: Dialect): StreamAssembly {
  const assembly = assemblies[dialect]();
  const errors: Turn[] = [];
  const problems: string[] = [];
  return {
    add: ({ data }) => {
      if (data === '[DONE]') return;
      const document = readJson(data);
      const root = rootOf(document);
      if (root === undefined || document.problem !== undefined) {
        if (problems.length < 20)
          problems.push(`A frame of the stream is not JSON: ${document.problem?.message ?? ''} ${data.slice(0, 200)}`);
        if (root === undefined) return;
      }
      const isErrorEvent = stringOf(memberOf(root, 'type')) === 'error' && memberOf(root, 'message') !== undefined;
      const error =
        errorTurn(root) ?? (isErrorEvent ? turnOf('answer', 'error', textParts(memberOf(root, 'message'))) : undefined);
      if (error !== undefined) errors.push(error);
      assembly.add(root);
    },
    read: () => {
      const { turns, answer } = assembly.read();
      return { turns: [...turns, ...errors], answer, problems };
    },
  };
}

export function* readStream(
  dialect: Dialect,
  frames: readonly StreamFrame[],
): Sliced<ReturnType<StreamAssembly['read']>> {
  const assembly = assembleStream(dialect);
  for (const [index, frame] of frames.entries()) {
    if (index % FRAMES_BETWEEN_YIELDS === FRAMES_BETWEEN_YIELDS - 1) yield;
    assembly.add(frame);
  }
  return assembly.read();
}

interface Assembly {
  add(root: JsonNode): void;
  read(): AnswerPart;
}

const assemblies: Readonly<Record<Dialect, () => Assembly>> = {
  chat: chatAssembly,
  completions: chatAssembly,
  messages: messagesAssembly,
  responses: responsesAssembly,
  embeddings: chatAssembly,
};

function textParts(node: JsonNode | undefined) {
  return [{ part: { kind: 'text', text: stringOf(node) ?? '' } as const, path: undefined }];
}

/** Members of frames, each with its last value that is not null. */
function lastMembers() {
  const found = new Map<string, NamedNode>();
  return {
    add: (root: JsonNode | undefined, known: readonly string[]) => {
      for (const one of othersOf(root, known)) found.set(one.name, one);
    },
    list: () => [...found.values()],
  };
}

function numberOf(node: JsonNode | undefined, otherwise: number): number {
  const value = Number(scalarOf(node));
  return Number.isSafeInteger(value) ? value : otherwise;
}

const deltaMembers = [
  'role',
  'content',
  'refusal',
  'reasoning_content',
  'reasoning',
  'tool_calls',
  'function_call',
  'audio',
];

/** Chat Completions; also completions, whose choices have a text instead of a delta. */
function chatAssembly(): Assembly {
  const choices = new Map<number, TurnBuilder>();
  const answer = lastMembers();
  return {
    add: (root) => {
      answer.add(root, ['choices', 'error', 'obfuscation']);
      for (const choice of elementsOf(memberOf(root, 'choices'))) {
        const number = numberOf(memberOf(choice, 'index'), 0);
        const turn = choices.get(number) ?? new TurnBuilder('assistant');
        choices.set(number, turn);
        const delta = memberOf(choice, 'delta') ?? memberOf(choice, 'message');
        turn.role = stringOf(memberOf(delta, 'role')) ?? turn.role;
        turn.ending = stringOf(memberOf(choice, 'finish_reason')) ?? turn.ending;
        addChatDelta(turn, delta);
        turn.append('text', stringOf(memberOf(choice, 'text')));
        turn.addOthers(othersOf(delta, deltaMembers));
        turn.addOthers(othersOf(choice, ['index', 'delta', 'message', 'text', 'finish_reason']));
      }
    },
    read: () => ({
      turns: [...choices]
        .sort(([a], [b]) => a - b)
        .map(([number, turn]) => turn.build(choices.size > 1 ? number : undefined)),
      answer: answer.list(),
    }),
  };
}

function addChatDelta(turn: TurnBuilder, delta: JsonNode | undefined): void {
  turn.append('reasoning', stringOf(memberOf(delta, 'reasoning_content')) ?? stringOf(memberOf(delta, 'reasoning')));
  turn.append('text', stringOf(memberOf(delta, 'content')));
  for (const part of elementsOf(memberOf(delta, 'content'))) turn.append('text', stringOf(memberOf(part, 'text')));
  turn.append('refusal', stringOf(memberOf(delta, 'refusal')));
  for (const call of elementsOf(memberOf(delta, 'tool_calls'))) {
    const called = memberOf(call, 'function') ?? memberOf(call, 'custom');
    turn.appendCall(`call ${numberOf(memberOf(call, 'index'), 0)}`, {
      id: stringOf(memberOf(call, 'id')),
      name: stringOf(memberOf(called, 'name')),
      arguments: stringOf(memberOf(called, 'arguments')) ?? stringOf(memberOf(called, 'input')),
    });
  }
  const legacy = memberOf(delta, 'function_call');
  if (legacy !== undefined && kindOf(legacy) === 'object') {
    turn.appendCall('function', {
      name: stringOf(memberOf(legacy, 'name')),
      arguments: stringOf(memberOf(legacy, 'arguments')),
    });
  }
  const audio = memberOf(delta, 'audio');
  turn.appendAudio(stringOf(memberOf(audio, 'data')), stringOf(memberOf(audio, 'transcript')));
}

/** Anthropic Messages: blocks begin, grow and end. */
function messagesAssembly(): Assembly {
  const turn = new TurnBuilder('assistant');
  const answer = lastMembers();
  let begun = false;
  return {
    add: (root) => {
      const index = numberOf(memberOf(root, 'index'), 0);
      switch (stringOf(memberOf(root, 'type'))) {
        case 'message_start': {
          const message = memberOf(root, 'message');
          begun = true;
          turn.role = stringOf(memberOf(message, 'role')) ?? turn.role;
          answer.add(message, ['content', 'role', 'stop_reason', 'stop_sequence']);
          break;
        }
        case 'content_block_start':
          begun = true;
          startBlock(turn, `block ${index}`, memberOf(root, 'content_block'));
          break;
        case 'content_block_delta':
          begun = true;
          growBlock(turn, `block ${index}`, memberOf(root, 'delta'));
          break;
        case 'message_delta':
          turn.ending = stringOf(memberOf(memberOf(root, 'delta'), 'stop_reason')) ?? turn.ending;
          answer.add(memberOf(root, 'delta'), ['stop_reason']);
          answer.add(root, ['type', 'delta']);
          break;
        case 'content_block_stop':
        case 'message_stop':
        case 'ping':
        case 'error':
          break;
        default:
          turn.addOthers([{ name: stringOf(memberOf(root, 'type')) ?? 'frame', node: root }]);
      }
    },
    read: () => ({ turns: begun ? [turn.build(undefined)] : [], answer: answer.list() }),
  };
}

function startBlock(turn: TurnBuilder, key: string, block: JsonNode | undefined): void {
  const type = stringOf(memberOf(block, 'type'));
  if (block === undefined || type === undefined) return;
  if (type === 'text') turn.begin(key, 'text', stringOf(memberOf(block, 'text')));
  else if (type === 'thinking') turn.begin(key, 'reasoning', stringOf(memberOf(block, 'thinking')));
  else if (type === 'tool_use' || type === 'server_tool_use' || type === 'mcp_tool_use') {
    const input = memberOf(block, 'input');
    const complete = input !== undefined && (input.document.childCounts[input.index] ?? 0) > 0;
    const [part] = partsOf(block);
    turn.appendCall(key, {
      id: stringOf(memberOf(block, 'id')),
      name: stringOf(memberOf(block, 'name')) ?? '',
      arguments: complete && part?.kind === 'tool call' ? part.arguments : '',
    });
  } else for (const part of partsOf(block)) turn.addPart(part);
}

function growBlock(turn: TurnBuilder, key: string, delta: JsonNode | undefined): void {
  switch (stringOf(memberOf(delta, 'type'))) {
    case 'text_delta':
      turn.begin(key, 'text', stringOf(memberOf(delta, 'text')));
      break;
    case 'thinking_delta':
      turn.begin(key, 'reasoning', stringOf(memberOf(delta, 'thinking')));
      break;
    case 'input_json_delta':
      turn.appendCall(key, { arguments: stringOf(memberOf(delta, 'partial_json')) });
      break;
    case 'signature_delta':
      turn.addPart({ kind: 'hidden reasoning', characters: stringOf(memberOf(delta, 'signature'))?.length ?? 0 });
      break;
    default:
      if (delta !== undefined) turn.addOthers([{ name: stringOf(memberOf(delta, 'type')) ?? 'delta', node: delta }]);
  }
}

/** Deltas of the Responses API that extend a text: by type, what they extend. */
const textDeltas: Readonly<Record<string, 'text' | 'reasoning' | 'refusal'>> = {
  'response.output_text.delta': 'text',
  'response.refusal.delta': 'refusal',
  'response.reasoning_summary_text.delta': 'reasoning',
  'response.reasoning_text.delta': 'reasoning',
  'response.reasoning.delta': 'reasoning',
};
const callDeltas = [
  'response.function_call_arguments.delta',
  'response.custom_tool_call_input.delta',
  'response.mcp_call_arguments.delta',
];
const endEvents = ['response.completed', 'response.incomplete', 'response.failed', 'response.cancelled'];

/** The Responses API: a finished item replaces what was assembled of it. The response at the end has the whole output. */
function responsesAssembly(): Assembly {
  const growing = new Map<number, TurnBuilder>();
  const finished = new Map<number, JsonNode>();
  let response: JsonNode | undefined;
  let ended = false;
  const builder = (root: JsonNode): TurnBuilder => {
    const index = numberOf(memberOf(root, 'output_index'), 0);
    const turn = growing.get(index) ?? new TurnBuilder('assistant');
    growing.set(index, turn);
    return turn;
  };
  return {
    add: (root) => {
      const type = stringOf(memberOf(root, 'type')) ?? '';
      const kind = textDeltas[type];
      const key = `${scalarOf(memberOf(root, 'content_index')) ?? ''} ${scalarOf(memberOf(root, 'summary_index')) ?? ''}`;
      if (kind !== undefined) builder(root).begin(`${kind} ${key}`, kind, stringOf(memberOf(root, 'delta')));
      else if (callDeltas.includes(type))
        builder(root).appendCall('call', { arguments: stringOf(memberOf(root, 'delta')) });
      else if (type === 'response.output_item.added') {
        const item = memberOf(root, 'item');
        const name = stringOf(memberOf(item, 'name'));
        const turn = builder(root);
        if (name !== undefined) turn.appendCall('call', { id: stringOf(memberOf(item, 'call_id')), name });
      } else if (type === 'response.output_item.done') {
        const item = memberOf(root, 'item');
        if (item !== undefined) finished.set(numberOf(memberOf(root, 'output_index'), finished.size), item);
      }
      response = memberOf(root, 'response') ?? response;
      ended ||= endEvents.includes(type);
    },
    read: () => {
      const output = memberOf(response, 'output');
      const turns =
        ended && output !== undefined && childCountOf(output) > 0
          ? runNow(itemTurns('answer', output))
          : [...new Set([...growing.keys(), ...finished.keys()])]
              .sort((a, b) => a - b)
              .flatMap((index) => {
                const item = finished.get(index);
                return item === undefined
                  ? [growing.get(index)?.build(undefined)].filter((turn) => turn !== undefined)
                  : [itemTurn('answer', item)];
              });
      const error = errorTurn(response);
      return {
        turns: [...(ended ? endedWith(turns, response) : turns), ...(error === undefined ? [] : [error])],
        answer: othersOf(response, ['output', 'error', 'tools', 'instructions']),
      };
    },
  };
}
