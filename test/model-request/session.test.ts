import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createSessions, type SessionRules } from '../../src/commands/model-request/model-request.ts';
import type { UserPath } from '../../src/events/event.ts';

const UUID = '0b0e7c3a-1d2f-4a5b-8c6d-7e8f90a1b2c3';
const builtin: SessionRules = { enabled: true, builtinRules: true, autoDetect: false, headers: [] };
const sessions = createSessions(builtin);
const path = (text: string) => text as UserPath;

describe('the session in the headers', () => {
  test.each([
    'x-session-id',
    'x-opencode-session',
    'x-claude-code-session-id',
    'session-id',
    'session_id',
    'x-litellm-session-id',
    'helicone-session-id',
    'agent-session-id',
  ])('is named by %s', (header) => {
    expect(sessions.inHeaders({ [header]: 's-1' }, undefined)).toBe('s-1');
  });

  test('is named by the first in that order', () => {
    expect(sessions.inHeaders({ 'agent-session-id': 'last', 'x-session-id': 'first' }, undefined)).toBe('first');
  });

  test.each(['', '   ', 'x'.repeat(201), 'a\u0000b'])('is not named by %j', (value) => {
    expect(sessions.inHeaders({ 'x-session-id': value }, undefined)).toBeUndefined();
    expect(sessions.inHeaders({ 'x-session-id': value, 'session-id': 'next' }, undefined)).toBe('next');
  });

  test('is named by further headers before the built-in ones, by their UUID with session-uuid', () => {
    const own = createSessions({
      ...builtin,
      headers: [
        { header: 'x-mine', transform: undefined },
        { header: 'x-user', transform: 'session-uuid' },
      ],
    });
    expect(own.inHeaders({ 'x-mine': 'a', 'x-session-id': 'b' }, undefined)).toBe('a');
    expect(own.inHeaders({ 'x-user': `user_x_account_y_session_${UUID}` }, undefined)).toBe(UUID);
    expect(own.inHeaders({ 'x-user': 'no uuid' }, undefined)).toBeUndefined();
  });
});

describe('the session in the body', () => {
  test.each([
    ['the older user id of Claude Code', { metadata: { user_id: `user_ab_account__session_${UUID}` } }, UUID],
    ['its newer one', { metadata: { user_id: `{"device_id":"d","session_id":"${UUID}"}` } }, UUID],
    ['session_id', { session_id: 's' }, 's'],
    ['litellm_session_id', { litellm_session_id: 's' }, 's'],
    ['prompt_cache_key', { prompt_cache_key: 's' }, 's'],
    ['conversation', { conversation: 'conv_1' }, 'conv_1'],
    ['the id of a conversation', { conversation: { id: 'conv_1' } }, 'conv_1'],
  ])('is named by %s', (_what, body, session) => {
    expect(sessions.inBody(body, undefined)).toBe(session);
  });

  test('is named by the first in that order', () => {
    const body = { conversation: 'e', prompt_cache_key: 'd', litellm_session_id: 'c', session_id: 'b' };
    expect(sessions.inBody(body, undefined)).toBe('b');
    expect(sessions.inBody({ ...body, metadata: { user_id: `session_${UUID}` } }, undefined)).toBe(UUID);
  });

  test('is not named by a user that is not from Claude Code', () => {
    expect(sessions.inBody({ metadata: { user_id: 'alice' }, session_id: 7 }, undefined)).toBeUndefined();
  });

  test('is read from any body without an error', () => {
    const all = createSessions({ ...builtin, autoDetect: true });
    fc.assert(
      fc.property(
        fc.record(
          {
            metadata: fc.anything(),
            session_id: fc.anything(),
            conversation: fc.anything(),
            messages: fc.oneof(fc.anything(), fc.array(fc.record({ role: fc.anything(), content: fc.jsonValue() }))),
            model: fc.jsonValue(),
          },
          { requiredKeys: [] },
        ),
        (body) => {
          const parsed: Record<string, unknown> = JSON.parse(
            JSON.stringify(body, (_key, value) => (typeof value === 'bigint' ? 0 : value)),
          );
          expect(['string', 'undefined']).toContain(typeof all.inBody(parsed, path('/a')));
        },
      ),
    );
  });
});

describe('a session under a user path', () => {
  test('is another one than that of the same name under another path', () => {
    const [a, b] = ['/a', '/b'].map((at) => sessions.inHeaders({ 'x-session-id': 's' }, path(at)));
    expect(a).toMatch(/^scoped-[0-9a-f]{32}$/);
    expect(b).toMatch(/^scoped-[0-9a-f]{32}$/);
    expect(a).not.toBe(b);
    expect(sessions.inBody({ session_id: 's' }, path('/a'))).toBe(a);
  });

  test('cannot be named from outside that path', () => {
    const theirs = sessions.inHeaders({ 'x-session-id': 's' }, path('/a')) ?? '';
    expect(sessions.inHeaders({ 'x-session-id': theirs }, undefined)).not.toBe(theirs);
    expect(sessions.inHeaders({ 'x-session-id': theirs }, path('/a'))).not.toBe(theirs);
  });
});

describe('an unnamed session', () => {
  const found = createSessions({ ...builtin, autoDetect: true });
  const turn = (role: string, content: string) => ({ role, content });
  const opening = { model: 'm', messages: [turn('system', 'be brief'), turn('user', 'hello')] };

  test('is detected only when autoDetect is on', () => {
    expect(sessions.inBody(opening, undefined)).toBeUndefined();
    expect(found.inBody(opening, undefined)).toMatch(/^auto-[0-9a-f]{32}$/);
  });

  test('stays the same while the conversation continues', () => {
    const later = { ...opening, messages: [...opening.messages, turn('assistant', 'hi'), turn('user', 'and now?')] };
    expect(found.inBody(later, undefined)).toBe(found.inBody(opening, undefined));
  });

  test.each([
    ['another question', { messages: [turn('system', 'be brief'), turn('user', 'bye')] }],
    ['another system text', { messages: [turn('system', 'be long'), turn('user', 'hello')] }],
    ['another model', { model: 'n' }],
    ['other tools', { tools: [{ type: 'function' }] }],
  ])('is another one with %s', (_what, more) => {
    expect(found.inBody({ ...opening, ...more }, undefined)).not.toBe(found.inBody(opening, undefined));
  });

  test('is another one under another user path', () => {
    expect(found.inBody(opening, path('/a'))).not.toBe(found.inBody(opening, path('/b')));
  });

  test('is detected in the input of the Responses API too', () => {
    expect(found.inBody({ model: 'm', input: 'hello' }, undefined)).toMatch(/^auto-/);
    expect(found.inBody({ model: 'm', input: [turn('user', 'hello')] }, undefined)).toMatch(/^auto-/);
    expect(found.inBody({ model: 'm', input: [] }, undefined)).toBeUndefined();
  });

  test('has the name in the request, if there is one', () => {
    expect(found.inBody({ ...opening, session_id: 's' }, undefined)).toBe('s');
  });
});

describe('switches', () => {
  test('nothing is found when sessions are off', () => {
    const off = createSessions({ ...builtin, enabled: false, autoDetect: true });
    expect(off.inHeaders({ 'x-session-id': 's' }, undefined)).toBeUndefined();
    expect(off.inBody({ session_id: 's' }, undefined)).toBeUndefined();
  });

  test('without the built-in rules only the configured headers count', () => {
    const own = createSessions({
      ...builtin,
      builtinRules: false,
      headers: [{ header: 'x-mine', transform: undefined }],
    });
    expect(own.inHeaders({ 'x-session-id': 's' }, undefined)).toBeUndefined();
    expect(own.inHeaders({ 'x-mine': 's' }, undefined)).toBe('s');
    expect(own.inBody({ session_id: 's' }, undefined)).toBeUndefined();
  });
});

test.each(['authorization', 'x-api-key', 'cookie', 'x-gitlab-token'])(
  '%s cannot name a session: it would be on the record',
  (header) => {
    const rules = { ...builtin, headers: [{ header, transform: undefined }] };
    expect(() => createSessions(rules)).toThrow(`'${header}' holds credentials`);
  },
);
