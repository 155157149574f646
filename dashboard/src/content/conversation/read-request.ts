/** The request of each dialect as turns, tools and settings. */
import { elementsOf, type JsonNode, kindOf, memberOf, stringOf } from '../json/json-document.ts';
import { contentParts, othersOf } from './content-parts.ts';
import { chatTurn, inputTurns, itemTurns, messagesTurns, turnOf } from './message-turns.ts';
import type { Conversation, Dialect, Tool, Turn } from './turn.ts';

export type RequestPart = Pick<Conversation, 'turns' | 'tools' | 'settings'>;

const contentMembers: Readonly<Record<Dialect, readonly string[]>> = {
  chat: ['messages', 'tools', 'functions'],
  messages: ['messages', 'system', 'tools'],
  responses: ['input', 'instructions', 'tools'],
  completions: ['prompt'],
  embeddings: ['input'],
};

export function readRequest(dialect: Dialect, root: JsonNode): RequestPart {
  return { turns: turnsOf[dialect](root), tools: toolsOf(root), settings: othersOf(root, contentMembers[dialect]) };
}

const turnsOf: Readonly<Record<Dialect, (root: JsonNode) => Turn[]>> = {
  chat: (root) => elementsOf(memberOf(root, 'messages')).map((message) => chatTurn('request', message)),
  messages: (root) => [
    ...systemTurn(memberOf(root, 'system'), 'system'),
    ...elementsOf(memberOf(root, 'messages')).flatMap((message) => messagesTurns('request', message)),
  ],
  responses: (root) => {
    const input = memberOf(root, 'input');
    const instructions = memberOf(root, 'instructions');
    const isText = input !== undefined && kindOf(input) === 'string';
    return [
      ...systemTurn(instructions, 'instructions'),
      ...(isText ? [turnOf('request', 'user', contentParts(input))] : itemTurns('request', elementsOf(input))),
    ];
  },
  completions: (root) => inputTurns(memberOf(root, 'prompt'), 'prompt'),
  embeddings: (root) => inputTurns(memberOf(root, 'input'), 'input'),
};

function systemTurn(node: JsonNode | undefined, role: string): Turn[] {
  const parts = contentParts(node);
  return parts.length === 0 ? [] : [turnOf('request', role, parts)];
}

function toolsOf(root: JsonNode): Tool[] {
  return [...elementsOf(memberOf(root, 'tools')), ...elementsOf(memberOf(root, 'functions'))].map((node) => {
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
