/** An exchange as a conversation: from the recorded bodies of the request and the answer. */
import { type JsonDocument, rootOf, scanJson } from '../json/json-document.ts';
import type { Sliced } from '../sliced.ts';
import { readAnswer } from './read-answer.ts';
import { readRequest } from './read-request.ts';
import { readStream } from './read-stream.ts';
import { looksLikeStream, readFrames } from './sse-frames.ts';
import type { Conversation, Dialect } from './turn.ts';

export interface RecordedBodies {
  readonly dialect: Dialect;
  readonly request: string | undefined;
  /** JSON, or a stream of server-sent events. */
  readonly answer: string | undefined;
}

const nothing: Conversation = { turns: [], tools: [], settings: [], answer: [], problems: [] };

/** Nothing of the bodies is lost: what has no form here is in `settings`, `answer`, `others` or a part of kind `json`. */
export function* readConversation({ dialect, request, answer }: RecordedBodies): Sliced<Conversation> {
  const asked = request === undefined ? nothing : yield* fromRequest(dialect, request);
  const answered = answer === undefined ? nothing : yield* fromAnswer(dialect, answer);
  return {
    turns: [...asked.turns, ...answered.turns],
    tools: asked.tools,
    settings: asked.settings,
    answer: answered.answer,
    problems: [...asked.problems, ...answered.problems],
  };
}

function* fromRequest(dialect: Dialect, text: string): Sliced<Conversation> {
  const document = yield* scanJson(text);
  const root = rootOf(document);
  const problems = problemOf(document, 'The request');
  return root === undefined
    ? { ...nothing, problems }
    : { ...nothing, ...(yield* readRequest(dialect, root)), problems };
}

function* fromAnswer(dialect: Dialect, text: string): Sliced<Conversation> {
  if (looksLikeStream(text)) return { ...nothing, ...(yield* readStream(dialect, yield* readFrames(text))) };
  const document = yield* scanJson(text);
  const root = rootOf(document);
  const problems = problemOf(document, 'The answer');
  return root === undefined
    ? { ...nothing, problems }
    : { ...nothing, ...(yield* readAnswer(dialect, root)), problems };
}

function problemOf({ problem, text }: JsonDocument, what: string): string[] {
  if (text === '') return [`${what} has no body.`];
  return problem === undefined
    ? []
    : [`${what} is not complete JSON, at character ${problem.offset}: ${problem.message}`];
}
