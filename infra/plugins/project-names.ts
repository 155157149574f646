/** A guardrail that keeps names of internal projects from providers. Names are compared without regard to case. */
import { definePlugin, z } from 'chancery/plugin';

export default definePlugin({
  name: 'project_names',
  label: 'Internal project names',
  version: '1.0.0',
  description: 'Blocks requests that name an internal project, or warns.',
  config: z.object({
    names: z.array(z.string().min(2)).min(1).meta({ title: 'Names' }),
    action: z.enum(['block', 'warn']).default('block').meta({ title: 'When a name is found' }),
  }),
  fields: [
    {
      key: 'action',
      label: 'When a name is found',
      input: 'select',
      required: false,
      options: ['block', 'warn'].map((value) => ({ value, label: value })),
    },
  ],
  hooks: {
    prompt(texts, { config }) {
      const written = texts.filter(({ kind }) => kind !== 'other').map(({ text }) => text.toLowerCase());
      const found = config.names.filter((name) => written.some((text) => containsWord(text, name.toLowerCase())));
      if (found.length === 0) return;
      return {
        decision: config.action,
        code: 'internal_project',
        message: 'The request names an internal project.',
        findings: { internal_project: found.length },
      };
    },
  },
});

function containsWord(text: string, word: string): boolean {
  for (let at = text.indexOf(word); at !== -1; at = text.indexOf(word, at + 1)) {
    if (!isLetter(text[at - 1]) && !isLetter(text[at + word.length])) return true;
  }
  return false;
}

function isLetter(character: string | undefined): boolean {
  return character !== undefined && /[\p{L}\p{N}]/u.test(character);
}
