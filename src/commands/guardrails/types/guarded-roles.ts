/** The roles whose texts a guardrail works on: part of the configuration of several types. */
import { z } from 'zod';
import type { TextKind, TextPart, TextRole } from '../guarded-text.ts';
import type { EditorField } from '../guardrail-type.ts';

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
