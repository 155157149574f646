/** The rules of every stream of Messages events, and the message that a client makes of it. */
import { expect } from 'vitest';
import type {
  ContentBlock,
  Message,
  MessageEvent,
  MessageShell,
} from '../../src/providers/translate/messages-to-chat/message-object.ts';

/** The shell of a message with the id `msg_1a2b`. */
export function messageShell(given: Partial<MessageShell> = {}): MessageShell {
  return { id: 'msg_1a2b', model: 'local/m1', stopSequences: [], thoughts: 'shown', ...given };
}

/** Adds the events up as Anthropic's clients do; fails when one of them is out of place. */
export function addedUp(events: readonly MessageEvent[]): Message {
  const [start, ...rest] = events;
  if (start?.type !== 'message_start') throw new Error(`the stream begins with ${start?.type}`);
  expect(start.message).toMatchObject({ content: [], stop_reason: null, stop_sequence: null });
  const content: ContentBlock[] = [];
  let open: number | undefined;
  let json = '';
  let message = start.message;
  for (const [place, event] of rest.entries()) {
    switch (event.type) {
      case 'content_block_start':
        expect([open, event.index]).toEqual([undefined, content.length]);
        open = event.index;
        json = '';
        content.push(event.content_block);
        break;
      case 'content_block_delta': {
        expect(event.index).toBe(open);
        const block = content[event.index];
        const { delta } = event;
        if (delta.type === 'input_json_delta') json += delta.partial_json;
        content[event.index] = withDelta(block, delta);
        break;
      }
      case 'content_block_stop': {
        expect(event.index).toBe(open);
        const block = content[event.index];
        if (block?.type === 'tool_use') content[event.index] = { ...block, input: inputOf(json) };
        open = undefined;
        break;
      }
      case 'message_delta':
        expect([open, place]).toEqual([undefined, rest.length - 2]);
        message = { ...message, ...event.delta, usage: { ...message.usage, ...event.usage } };
        break;
      case 'message_stop':
        expect(place).toBe(rest.length - 1);
        break;
      default:
        throw new Error(`${event.type} in the middle of a stream`);
    }
  }
  expect(rest.at(-1)?.type).toBe('message_stop');
  return { ...message, content };
}

function withDelta(block: ContentBlock | undefined, delta: (MessageEvent & { type: 'content_block_delta' })['delta']) {
  switch (delta.type) {
    case 'text_delta':
      if (block?.type === 'text') return { ...block, text: block.text + delta.text };
      break;
    case 'thinking_delta':
      if (block?.type === 'thinking') return { ...block, thinking: block.thinking + delta.thinking };
      break;
    case 'signature_delta':
      if (block?.type === 'thinking') return { ...block, signature: delta.signature };
      break;
    case 'input_json_delta':
      if (block?.type === 'tool_use') return block;
  }
  throw new Error(`${delta.type} in a block of type ${block?.type}`);
}

function inputOf(json: string): object {
  if (json.trim() === '') return {};
  try {
    const input: unknown = JSON.parse(json);
    return typeof input === 'object' && input !== null && !Array.isArray(input) ? input : { INVALID_JSON: json };
  } catch {
    return { INVALID_JSON: json };
  }
}
