/** `system_prompt`: adds, replaces or prepends the system text of requests. */
import { z } from 'zod';
import type { TextPart } from '../guarded-text.ts';
import { allowed } from '../guardrail-decision.ts';
import type { GuardrailResult, GuardrailType } from '../guardrail-type.ts';
import { cut } from './summary-text.ts';

const config = z.strictObject({
  mode: z.enum(['inject', 'override', 'decorator']).default('inject'),
  content: z.string().min(1).max(100_000),
});

export const systemPrompt: GuardrailType<z.infer<typeof config>> = {
  type: 'system_prompt',
  label: 'System prompt',
  description: 'Adds a system message if there is none, replaces all, or prepends a text to the first.',
  phases: ['prompt'],
  mutating: true,
  config,
  defaults: { mode: 'inject' },
  fields: [
    {
      key: 'mode',
      label: 'Mode',
      input: 'select',
      required: false,
      options: [
        { value: 'inject', label: 'Inject: only when there is no system message' },
        { value: 'override', label: 'Override: replace all system messages' },
        { value: 'decorator', label: 'Decorator: prepend to the first system message' },
      ],
      scope: '',
    },
    { key: 'content', label: 'Content', input: 'textarea', required: true, scope: '' },
  ],
  summary: ({ mode, content }) => `${mode} • ${cut(content)}`,
  compile: ({ mode, content }) => ({
    prompt(parts): GuardrailResult {
      if (mode === 'override') return { decision: allowed, system: { mode: 'replace', text: content } };
      const first = parts.findIndex(isSystemText);
      if (first === -1) return { decision: allowed, system: { mode: 'add', text: content } };
      if (mode === 'inject') return { decision: allowed };
      return { decision: allowed, texts: new Map([[first, `${content}\n${parts[first]?.text ?? ''}`]]) };
    },
  }),
};

function isSystemText({ role, kind }: TextPart): boolean {
  return role === 'system' && kind === 'text';
}
