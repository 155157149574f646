/** `docs/responses.md` has every member, item and event: a new one without a row fails here. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createRequestSchema } from '../../src/commands/responses/create-request.ts';
import { chatMessages } from '../../src/providers/translate/responses-to-chat/items-to-chat-messages.ts';
import { plainReasoning } from '../../src/providers/translate/responses-to-chat/reasoning.ts';
import { chatRequestFromResponses } from '../../src/providers/translate/responses-to-chat/request.ts';
import { providerTypes } from '../../src/providers/types.ts';

const document = readFileSync(new URL('../../docs/responses.md', import.meta.url), 'utf8');
const sections = new Map(document.split(/^## /m).map((text) => [text.slice(0, text.indexOf('\n')), text]));
const chat = sections.get('3. Providers of chat completions') ?? '';
/** The rows of a table's part, as [what, fate]. */
const rows = chat.split('\n').flatMap((line) => {
  const cells = /^\| (.+?) \| (.*) \|$/.exec(line);
  return cells === null ? [] : [[cells[1] ?? '', cells[2] ?? ''] as const];
});
const named = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map((match) => match[1] ?? '');

describe('docs/responses.md', () => {
  it.each(Object.keys(providerTypes).filter((type) => type !== 'simulated'))('has a table for %s', (type) => {
    expect(named(document)).toContain(type);
  });

  it.each(Object.keys(createRequestSchema.shape))('has a row for %s', (field) => {
    const spokenOf = rows.flatMap(([what]) => named(what)).map((name) => name.split(/[.: ]/)[0]);
    expect(spokenOf).toContain(field);
  });

  it('is right about the fields that are refused', () => {
    const refused = rows.filter(([, fate]) => fate.startsWith('refused')).flatMap(([what]) => named(what));
    const values: Record<string, unknown> = { n: 2 };
    const whole = ['prompt', 'context_management', 'moderation', 'access_programs', 'image', 'n'];
    for (const field of whole) {
      expect(refused).toContain(field);
      const member = field.split(':')[0] ?? '';
      const result = chatRequestFromResponses(
        { input: 'hi', [member]: values[field] ?? { id: 'x' } },
        { model: 'm', reasoningStyle: plainReasoning },
      );
      expect(result).toMatchObject({ ok: false, refusal: { status: 400, param: member } });
    }
  });

  it('is right about the items that are left out', () => {
    const leftOut = rows.find(([what]) => what.includes('`web_search_call`'));
    const types = named(leftOut?.[0] ?? '');
    expect(leftOut?.[1]).toBe('left out');
    expect(types).toHaveLength(9);
    const user = { role: 'user', content: 'hi' };
    for (const type of types) {
      expect(chatMessages({ input: [user, { type, id: 'x' }] }, plainReasoning)).toEqual({
        ok: true,
        messages: [user],
      });
    }
  });
});
