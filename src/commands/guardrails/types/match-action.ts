/** What a guardrail does when it finds something: part of the configuration of several types. */
import { z } from 'zod';
import {
  allowed,
  type GuardrailDecision,
  guardrailBlocked,
  guardrailResponded,
  guardrailWarning,
} from '../guardrail-decision.ts';
import type { EditorField } from '../guardrail-type.ts';

export const defaultMessage = 'Request blocked by policy';

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

export interface DecisionCodes {
  readonly block: string;
  readonly respond: string;
  readonly warn: string;
}

export const defaultCodes: DecisionCodes = {
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
