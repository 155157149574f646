/** `header_edit`: changes headers of requests and answers. Credentials and framing cannot be changed. */
import { z } from 'zod';
import { headerNameProblem, isHeaderValue } from '../../header-names.ts';
import {
  allowed,
  GuardrailConfigError,
  type GuardrailResult,
  type GuardrailType,
  type HeaderChanges,
} from '../guardrail-type.ts';

const lines = z.string().max(50_000).default('');

const config = z.strictObject({
  request_set: lines,
  request_remove: lines,
  response_set: lines,
  response_add: lines,
  response_remove: lines,
  upstream_set: lines,
});

type Config = z.infer<typeof config>;

const help = { set: 'One per line: name: value', remove: 'One name per line' };

export const headerEdit: GuardrailType<Config> = {
  type: 'header_edit',
  label: 'Header changes',
  description: 'Sets and removes headers of requests and answers.',
  phases: ['prompt', 'response'],
  mutating: false,
  config,
  defaults: {
    request_set: '',
    request_remove: '',
    response_set: '',
    response_add: '',
    response_remove: '',
    upstream_set: '',
  },
  fields: [
    { key: 'request_set', label: 'Set in requests', input: 'textarea', required: false, help: help.set, scope: '' },
    {
      key: 'request_remove',
      label: 'Remove from requests',
      input: 'textarea',
      required: false,
      help: help.remove,
      scope: '',
    },
    { key: 'response_set', label: 'Set in answers', input: 'textarea', required: false, help: help.set, scope: '' },
    { key: 'response_add', label: 'Add to answers', input: 'textarea', required: false, help: help.set, scope: '' },
    {
      key: 'response_remove',
      label: 'Remove from answers',
      input: 'textarea',
      required: false,
      help: help.remove,
      scope: '',
    },
    {
      key: 'upstream_set',
      label: 'Set in requests to providers',
      input: 'textarea',
      required: false,
      help: `${help.set}. Recorded only.`,
      scope: '',
    },
  ],
  summary(given) {
    const { requestSet, requestRemove, responseSet, responseAdd, responseRemove, upstreamSet } = changesOf(given);
    const names = [requestSet, responseSet, responseAdd, upstreamSet].flatMap((set) => Object.keys(set ?? {}));
    return [...names, ...(requestRemove ?? []), ...(responseRemove ?? [])].join(', ');
  },
  compile(given) {
    const changes = changesOf(given);
    const { requestSet, requestRemove, upstreamSet, responseSet, responseAdd, responseRemove } = changes;
    const prompt: GuardrailResult = { decision: allowed, headers: { requestSet, requestRemove, upstreamSet } };
    const response: GuardrailResult = { decision: allowed, headers: { responseSet, responseAdd, responseRemove } };
    return { prompt: () => prompt, response: () => response };
  },
};

function changesOf(given: Config): HeaderChanges {
  return {
    requestSet: headersIn('request_set', given.request_set),
    requestRemove: namesIn('request_remove', given.request_remove),
    responseSet: headersIn('response_set', given.response_set),
    responseAdd: headersIn('response_add', given.response_add),
    responseRemove: namesIn('response_remove', given.response_remove),
    upstreamSet: headersIn('upstream_set', given.upstream_set),
  };
}

function headersIn(key: string, text: string): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const { line, number } of linesOf(text)) {
    const at = line.indexOf(':');
    if (at === -1) throw new GuardrailConfigError(`${key}, line ${number}: ':' and a value are missing`);
    const name = checkedName(key, number, line.slice(0, at).trim());
    const value = line.slice(at + 1).trim();
    if (!isHeaderValue(value))
      throw new GuardrailConfigError(`${key}, line ${number}: the value has an invalid character`);
    headers[name] = value;
  }
  return headers;
}

function namesIn(key: string, text: string): string[] {
  return linesOf(text).map(({ line, number }) => checkedName(key, number, line));
}

function linesOf(text: string): { readonly line: string; readonly number: number }[] {
  return text
    .split('\n')
    .map((line, index) => ({ line: line.trim(), number: index + 1 }))
    .filter(({ line }) => line !== '' && !line.startsWith('# '));
}

function checkedName(key: string, number: number, given: string): string {
  const problem = headerNameProblem(given);
  if (problem !== undefined) throw new GuardrailConfigError(`${key}, line ${number}: ${problem}`);
  return given.toLowerCase();
}
