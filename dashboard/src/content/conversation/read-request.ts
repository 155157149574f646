/** The request of each dialect as turns, tools and settings. */
import { elementsOf, type JsonNode, kindOf, memberOf, stringOf } from '../json/json-document.ts';
import type { Sliced } from '../sliced.ts';
import { contentParts, othersOf } from './content-parts.ts';
import { chatTurn, inputTurns, itemTurns, messagesTurns, turnOf, turnsOfEach } from './message-turns.ts';
import type { Conversation, Dialect, Tool, Turn } from './turn.ts';

export type RequestPart = Pick<Conversation, 'turns' | 'tools' | 'settings'>;

const contentMembers: Readonly<Record<Dialect, readonly string[]>> = {
  chat: ['messages', 'tools', 'functions'],
  messages: ['messages', 'system', 'tools'],
  responses: ['input', 'instructions', 'tools'],
  completions: ['prompt'],
  embeddings: ['input'],
};

export function* readRequest(dialect: Dialect, root: JsonNode): Sliced<RequestPart> {
  const turns = yield* turnsOf[dialect](root);
  return { turns, tools: toolsOf(root), settings: othersOf(root, contentMembers[dialect]) };
}

const turnsOf: Readonly<Record<Dialect, (root: JsonNode) => Sliced<Turn[]>>> = {
  *chat(root) {
    return yield* turnsOfEach(memberOf(root, 'messages'), (message) => [chatTurn('request', message)]);
  },
  *messages(root) {
    const system = systemTurn(memberOf(root, 'system'), 'system');
    const turns = yield* turnsOfEach(memberOf(root, 'messages'), (message) => messagesTurns('request', message));
    return system.concat(turns);
  },
  *responses(root) {
    const input = memberOf(root, 'input');
    const system = systemTurn(memberOf(root, 'instructions'), 'instructions');
    const isText = input !== undefined && kindOf(input) === 'string';
    const turns = isText ? [turnOf('request', 'user', contentParts(input))] : yield* itemTurns('request', input);
    return system.concat(turns);
  },
  *completions(root) {
    return yield* inputTurns(memberOf(root, 'prompt'), 'prompt');
  },
  *embeddings(root) {
    return yield* inputTurns(memberOf(root, 'input'), 'input');
  },
};

function systemTurn(node: JsonNode | undefined, role: string): Turn[] {
  const parts = contentParts(node);
  return parts.length === 0 ? [] : [turnOf('request', role, parts)];
}

/** Further tools are in the body only. */
const MAX_TOOLS = 1_000;

function toolsOf(root: JsonNode): Tool[] {
  const nodes = [...elementsOf(memberOf(root, 'tools')), ...elementsOf(memberOf(root, 'functions'))];
  return nodes.slice(0, MAX_TOOLS).map((node) => {
    const inner = memberOf(node, 'function') ?? memberOf(node, 'custom') ?? node;
    return {
      name:
        stringOf(memberOf(inner, 'name')) ??
        stringOf(memberOf(node, 'server_label')) ??
        stringOf(memberOf(node, 'type')) ??
        'tool',
      description: stringOf(memberOf(inner, 'description')) ?? '',
      node,
    };
  });
}
