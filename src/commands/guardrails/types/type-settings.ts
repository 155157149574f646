/** Parts of the configuration that several types of guardrails have, and what they do. */
import { z } from 'zod';
import {
  allowed,
  type EditorField,
  type EvaluationContext,
  type GuardrailDecision,
  type GuardrailServices,
  guardrailBlocked,
  guardrailResponded,
  guardrailWarning,
  type TextKind,
  type TextPart,
  type TextRole,
} from '../guardrail-type.ts';

const defaultMessage = 'Request blocked by policy';

export const matchActionMembers = {
  message: z.string().max(2_000).default(defaultMessage),
  block_status: z.int().min(400).max(599).optional(),
  respond_text: z.string().max(20_000).default(''),
};

interface MatchAction {
  readonly message: string;
  readonly block_status?: number | undefined;
  readonly respond_text: string;
}

interface DecisionCodes {
  readonly block: string;
  readonly respond: string;
  readonly warn: string;
}

const defaultCodes: DecisionCodes = {
  block: guardrailBlocked,
  respond: guardrailResponded,
  warn: guardrailWarning,
};

/** @param action any other action allows */
export function matchDecision(
  action: string,
  { message, block_status, respond_text }: MatchAction,
  codes: DecisionCodes = defaultCodes,
): GuardrailDecision {
  if (action === 'block') return { action, code: codes.block, message, status: block_status };
  if (action === 'respond') return { action, code: codes.respond, text: respond_text || message, message };
  if (action === 'warn') return { action, code: codes.warn, message };
  return allowed;
}

export const matchActionFields: readonly EditorField[] = [
  { key: 'message', label: 'Message', input: 'text', required: false, help: 'Of the error or the warning.', scope: '' },
  {
    key: 'block_status',
    label: 'Status when blocking',
    input: 'number',
    required: false,
    help: '400 to 599. Empty: 400 for a request, 422 for an answer.',
    scope: '',
  },
  {
    key: 'respond_text',
    label: 'Text when responding',
    input: 'textarea',
    required: false,
    help: 'The answer of the gateway. Empty: the message.',
    scope: '',
  },
];

export const matchActionDefaults = { message: defaultMessage, respond_text: '' };

/** The roles whose texts a guardrail works on: part of the configuration of several types. */
export const allRoles: readonly TextRole[] = ['system', 'user', 'assistant', 'tool'];

export function rolesMember(defaults: readonly TextRole[]) {
  return z
    .array(z.enum(['system', 'user', 'assistant', 'tool']))
    .min(1)
    .default([...defaults]);
}

export function rolesField(required = false): EditorField {
  return {
    key: 'roles',
    label: 'Roles',
    input: 'checkboxes',
    required,
    help: 'Messages of a request whose texts are read.',
    options: allRoles.map((value) => ({ value, label: value })),
    scope: '',
  };
}

const conversation: ReadonlySet<TextKind> = new Set(['text', 'refusal', 'reasoning', 'tool_arguments', 'tool_result']);

/** Whether a text is part of the conversation, not a description or an identifier. */
export function isConversation({ kind }: Pick<TextPart, 'kind'>): boolean {
  return conversation.has(kind);
}

/** A switch in a configuration. The editor has no input for it but a selection, whose values are texts. */
export const yesOrNo = z.union([z.boolean(), z.enum(['true', 'false']).transform((value) => value === 'true')]);

export function yesOrNoField(key: string, label: string): EditorField {
  const options = [
    { value: 'true', label: 'Yes' },
    { value: 'false', label: 'No' },
  ];
  return { key, label, input: 'select', required: false, options, scope: '' };
}

const longest = 72;

/** The first line's worth of a text, for the summary of a guardrail. */
export function cut(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length > longest ? `${line.slice(0, longest)}…` : line;
}

/** The user path at which a guardrail calls a model: `<path of the guardrail or of the caller>/guardrails/<name>`. */
export function auxiliaryPath(
  { userPath, name }: Pick<GuardrailServices, 'userPath' | 'name'>,
  caller: Pick<EvaluationContext, 'userPath'>,
): string {
  const path = userPath ?? caller.userPath;
  return `${path.replace(/\/$/, '')}/guardrails/${segmentOf(name)}`;
}

/** A name may contain spaces, or consist of dots, which a segment of a user path may not. */
function segmentOf(name: string): string {
  return name.replaceAll(' ', '%20').replace(/^\.{1,2}$/, (dots) => dots.replaceAll('.', '%2E'));
}

/** Runs an asynchronous function over values, a few at a time. Equal values are computed once. */
export async function inBatches<Result>(
  values: readonly string[],
  most: number,
  compute: (value: string) => Promise<Result>,
): Promise<ReadonlyMap<string, Result>> {
  const results = new Map<string, Result>();
  const open = [...new Set(values)];
  const work = async () => {
    for (let value = open.pop(); value !== undefined; value = open.pop()) results.set(value, await compute(value));
  };
  await Promise.all(Array.from({ length: Math.min(most, open.length) }, work));
  return results;
}
