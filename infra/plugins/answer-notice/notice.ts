/** Where a notice belongs in an answer. Pure. */
import type { Text } from 'chancery/plugin';

/** New texts by index: the notice ends the last message of the assistant. Texts outside messages are the envelope of the answer. Undefined for an answer without text. */
export function withNotice(texts: readonly Text[], notice: string): Record<number, string> | undefined {
  const last = texts.findLastIndex(
    ({ role, kind, message }) => role === 'assistant' && kind === 'text' && message >= 0,
  );
  const text = texts[last]?.text;
  return text === undefined || text === '' ? undefined : { [last]: `${text}\n\n${notice}` };
}
