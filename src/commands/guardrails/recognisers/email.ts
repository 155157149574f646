/** E-mail addresses: RFC 5321 lengths; the last label of the domain consists of letters. */
import type { Recogniser } from './recogniser.ts';

export const email: Recogniser = {
  entity: 'EMAIL',
  label: 'E-mail addresses',
  byDefault: true,
  longest: 640,
  candidates: /(?<![\p{L}\p{N}._%+'-])[\p{L}\p{N}._%+'-]{1,64}@(?:[\p{L}\p{N}-]{1,63}\.){1,8}[\p{L}\p{N}-]{1,63}/gu,
  hint: /@/,
  validLength(candidate) {
    const at = candidate.indexOf('@');
    const local = candidate.slice(0, at);
    if (local.endsWith('.') || local.includes('..')) return 0;
    // A sentence may go on behind the address: `jane@example.com.Then`. Labels are removed until a valid one is last.
    for (let end = candidate.length; end > at; end = candidate.lastIndexOf('.', end - 1)) {
      const labels = candidate.slice(at + 1, end).split('.');
      if (labels.length < 2) return 0;
      const isValid = labels.every((label) => !label.startsWith('-') && !label.endsWith('-'));
      if (isValid && /^\p{L}{2,24}$/u.test(labels.at(-1) ?? '')) return Math.min(end, 320);
    }
    return 0;
  },
};
