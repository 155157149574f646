/** Loads the conversation, or the turns before a response, that the request continues. Read once for all candidates. */
import type { Recorded, WithHistory } from './context.ts';
import type { Step } from './step.ts';

export const loadHistory: Step<Recorded, WithHistory> = {
  name: 'loadHistory',
  run(context) {
    const { exchange, parsedRequest } = context;
    const loading = exchange.dialect.loadHistory?.({ parsedRequest, sight: exchange.request.caller.sight });
    if (loading === undefined) return { ...context, history: undefined };
    return loading.then((history) => ({ ...context, history }));
  },
};
