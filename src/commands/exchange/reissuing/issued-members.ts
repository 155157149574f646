/**
 * The members of an answer that the gateway issues for each caller: the id of the answer, the ids of the output items
 * of a response, and timestamps. Ids of tool calls are not among them: clients send them back, and the conversation
 * that they belong to is the client's own.
 */
import { elementsIn, membersIn } from '../../../providers/json-members.ts';
import { parseChunk } from '../../model-request/parse-chunk.ts';
import type { IssuedValue, ItemIds, ReissuedDialect } from './issued-texts.ts';

const QUOTE = 0x22;
const OPEN_BRACE = 0x7b;
const OPEN_BRACKET = 0x5b;

export interface IssuedMembers {
  readonly dialect: ReissuedDialect;
  readonly stream: boolean;
  readonly items: ItemIds;
  /** @param span a value within the given text */
  mark(span: Buffer, value: IssuedValue): void;
  /** The object of the response in the given text. */
  markResponse(span: Buffer): void;
}

/** @param text a JSON object that is known to parse: the whole answer, or the data of one event of its stream */
export function findIssued(text: Buffer, found: IssuedMembers): void {
  switch (found.dialect) {
    case 'responses':
      if (found.stream) inEvent(text, found);
      else inResponse(text, found);
      return;
    case 'messages':
      for (const { name, value } of membersIn(text)) {
        if (!found.stream) markAnswerId(name, value, found);
        else if (name === 'message' && isObjectText(value)) {
          for (const member of membersIn(value)) markAnswerId(member.name, member.value, found);
        }
      }
      return;
    case 'chat':
    case 'embeddings':
      for (const { name, value } of membersIn(text)) {
        markAnswerId(name, value, found);
        if (name === 'created' && isTime(value)) found.mark(value, 'createdAt');
      }
  }
}

function markAnswerId(name: string, value: Buffer, found: IssuedMembers): void {
  if (name === 'id' && isFilledString(value)) found.mark(value, 'answerId');
}

function inEvent(text: Buffer, found: IssuedMembers): void {
  const members = membersIn(text);
  const index = members.findLast(({ name }) => name === 'output_index')?.value.toString();
  const place = index === undefined ? undefined : Number(index);
  for (const { name, value } of members) {
    if (name === 'response' && isObjectText(value)) inResponse(value, found);
    else if (name === 'response_id' && isFilledString(value)) found.mark(value, 'answerId');
    else if (name === 'item_id') markItem(value, place, found);
    else if (name === 'item') inItem(value, place, found);
  }
}

function inResponse(text: Buffer, found: IssuedMembers): void {
  found.markResponse(text);
  for (const { name, value } of membersIn(text)) {
    markAnswerId(name, value, found);
    if (name === 'created_at' && isTime(value)) found.mark(value, 'createdAt');
    else if (name === 'completed_at' && isTime(value)) found.mark(value, 'completedAt');
    else if (name === 'output' && isArrayText(value)) {
      for (const [place, item] of elementsIn(value).entries()) inItem(item, place, found);
    }
  }
}

function inItem(text: Buffer, place: number | undefined, found: IssuedMembers): void {
  if (!isObjectText(text)) return;
  for (const { name, value } of membersIn(text)) if (name === 'id') markItem(value, place, found);
}

function markItem(value: Buffer, place: number | undefined, found: IssuedMembers): void {
  if (!isFilledString(value)) return;
  const original = parseChunk(`{"id":${value}}`)?.['id'];
  if (typeof original === 'string') found.mark(value, found.items.indexOf(original, place));
}

function isFilledString(value: Buffer): boolean {
  return value[0] === QUOTE && value.length > 2;
}

/** A time that is set: some servers send 0 with events that precede the answer. */
function isTime(value: Buffer): boolean {
  return Number(value.toString('latin1')) > 0;
}

function isObjectText(value: Buffer): boolean {
  return value[0] === OPEN_BRACE;
}

function isArrayText(value: Buffer): boolean {
  return value[0] === OPEN_BRACKET;
}
