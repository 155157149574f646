/** The JSON answer of each dialect as turns. */
import { childCountOf, type JsonNode, kindOf, memberOf, scalarOf, stringOf } from '../json/json-document.ts';
import { pathOf } from '../json/json-path.ts';
import type { Sliced } from '../sliced.ts';
import { contentParts, othersOf } from './content-parts.ts';
import { chatTurn, errorTurn, itemTurns, messagesTurns, turnOf, turnsOfEach } from './message-turns.ts';
import type { Conversation, Dialect, Turn } from './turn.ts';

export type AnswerPart = Pick<Conversation, 'turns' | 'answer'>;

const contentMembers: Readonly<Record<Dialect, readonly string[]>> = {
  chat: ['choices', 'error'],
  messages: ['content', 'role', 'error'],
  responses: ['output', 'error', 'tools', 'instructions'],
  completions: ['choices', 'error'],
  embeddings: ['data', 'error'],
};

export function* readAnswer(dialect: Dialect, root: JsonNode): Sliced<AnswerPart> {
  const turns = yield* turnsOf[dialect](root);
  const error = errorTurn(root);
  return {
    turns: error === undefined ? turns : [...turns, error],
    answer: othersOf(root, contentMembers[dialect]),
  };
}

const turnsOf: Readonly<Record<Dialect, (root: JsonNode) => Sliced<Turn[]>>> = {
  *chat(root) {
    const choices = memberOf(root, 'choices');
    return yield* turnsOfEach(choices, (choice, index) => {
      const message = memberOf(choice, 'message');
      if (message === undefined) return [];
      const others = [...othersOf(message, chatKnown), ...othersOf(choice, ['index', 'message', 'finish_reason'])];
      return [chatTurn('answer', message, { ...choiceOf(choices, choice, index), others })];
    });
  },
  *messages(root) {
    yield;
    if (memberOf(root, 'content') === undefined) return [];
    const turns = messagesTurns('answer', root, { ending: stringOf(memberOf(root, 'stop_reason')) });
    return turns.map((turn) => ({ ...turn, others: [] }));
  },
  *responses(root) {
    return endedWith(yield* itemTurns('answer', memberOf(root, 'output')), root);
  },
  *completions(root) {
    const choices = memberOf(root, 'choices');
    return yield* turnsOfEach(choices, (choice, index) => [
      turnOf('answer', 'assistant', contentParts(memberOf(choice, 'text')), choiceOf(choices, choice, index)),
    ]);
  },
  *embeddings(root) {
    return yield* turnsOfEach(memberOf(root, 'data'), (entry) => [embeddingTurn(entry)]);
  },
};

const chatKnown = [
  ...['role', 'content', 'name', 'tool_calls', 'function_call', 'refusal', 'audio'],
  ...['reasoning_content', 'reasoning'],
];

function choiceOf(choices: JsonNode | undefined, choice: JsonNode, index: number): Partial<Turn> {
  const count = choices === undefined ? 0 : childCountOf(choices);
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
