/** The JSON answer of each dialect as turns. */
import { elementsOf, type JsonNode, kindOf, memberOf, scalarOf, stringOf } from '../json/json-document.ts';
import { pathOf } from '../json/json-path.ts';
import { contentParts, othersOf } from './content-parts.ts';
import { chatTurn, errorTurn, itemTurns, messagesTurns, turnOf } from './message-turns.ts';
import type { Conversation, Dialect, Turn } from './turn.ts';

export type AnswerPart = Pick<Conversation, 'turns' | 'answer'>;

const contentMembers: Readonly<Record<Dialect, readonly string[]>> = {
  chat: ['choices', 'error'],
  messages: ['content', 'role', 'error'],
  responses: ['output', 'error', 'tools', 'instructions'],
  completions: ['choices', 'error'],
  embeddings: ['data', 'error'],
};

export function readAnswer(dialect: Dialect, root: JsonNode): AnswerPart {
  const error = errorTurn(root);
  return {
    turns: [...turnsOf[dialect](root), ...(error === undefined ? [] : [error])],
    answer: othersOf(root, contentMembers[dialect]),
  };
}

const turnsOf: Readonly<Record<Dialect, (root: JsonNode) => Turn[]>> = {
  chat: (root) => {
    const choices = elementsOf(memberOf(root, 'choices'));
    return choices.flatMap((choice, index) => {
      const message = memberOf(choice, 'message');
      if (message === undefined) return [];
      const others = [...othersOf(message, chatKnown), ...othersOf(choice, ['index', 'message', 'finish_reason'])];
      return [chatTurn('answer', message, { ...choiceOf(choice, index, choices.length), others })];
    });
  },
  messages: (root) =>
    memberOf(root, 'content') === undefined
      ? []
      : messagesTurns('answer', root, { ending: stringOf(memberOf(root, 'stop_reason')) }).map((turn) => ({
          ...turn,
          others: [],
        })),
  responses: (root) => endedWith(itemTurns('answer', elementsOf(memberOf(root, 'output'))), root),
  completions: (root) => {
    const choices = elementsOf(memberOf(root, 'choices'));
    return choices.map((choice, index) =>
      turnOf('answer', 'assistant', contentParts(memberOf(choice, 'text')), choiceOf(choice, index, choices.length)),
    );
  },
  embeddings: (root) => elementsOf(memberOf(root, 'data')).map(embeddingTurn),
};

const chatKnown = [
  ...['role', 'content', 'name', 'tool_calls', 'function_call', 'refusal', 'audio'],
  ...['reasoning_content', 'reasoning'],
];

function choiceOf(choice: JsonNode, index: number, count: number): Partial<Turn> {
  const number = Number(scalarOf(memberOf(choice, 'index')) ?? index);
  return { choice: count > 1 ? number : undefined, ending: stringOf(memberOf(choice, 'finish_reason')) };
}

/** The status of a response that is not complete, with its reason, as the ending of the last turn. */
export function endedWith(turns: readonly Turn[], response: JsonNode | undefined): Turn[] {
  const status = stringOf(memberOf(response, 'status'));
  const reason = stringOf(memberOf(memberOf(response, 'incomplete_details'), 'reason'));
  const last = turns.at(-1);
  if (last === undefined || status === undefined) return [...turns];
  return turns.with(-1, { ...last, ending: reason === undefined ? status : `${status}: ${reason}` });
}

function embeddingTurn(entry: JsonNode): Turn {
  const vector = memberOf(entry, 'embedding') ?? entry;
  const isList = kindOf(vector) === 'array';
  const label = isList ? `vector of ${vector.document.childCounts[vector.index]} numbers` : 'vector, base64';
  return turnOf('answer', 'embedding', [{ part: { kind: 'json', label, node: vector }, path: pathOf(vector) }]);
}
