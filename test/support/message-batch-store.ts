/** A script for a scripted provider that has Anthropic's batches. */
import type { Script, ScriptedRequest } from './scripted-provider.ts';

export interface MessageBatchStore {
  readonly script: Script;
  /** Every request but those for the list of models, as `METHOD path`. */
  readonly requests: string[];
  /** The body with which the batch was made. */
  bodyOf(id: string): string;
  /** Ends a batch: each request is answered, but for those with this id, which ends as `type` says. */
  end(id: string, odd?: { readonly id: string; readonly type: 'errored' | 'canceled' | 'expired' }): void;
}

interface Stored {
  readonly body: string;
  readonly created: Date;
  status: 'in_progress' | 'canceling' | 'ended';
  lines: readonly object[];
}

const usage = { input_tokens: 11, output_tokens: 7 };

export function messageBatchStore(model: string): MessageBatchStore {
  const batches = new Map<string, Stored>();
  const providerRequests: string[] = [];

  const shown = (id: string, { created, status, lines }: Stored): object => ({
    id,
    type: 'message_batch',
    processing_status: status,
    request_counts: { processing: 0, succeeded: lines.length, errored: 0, canceled: 0, expired: 0 },
    ended_at: status === 'ended' ? created.toISOString() : null,
    created_at: created.toISOString(),
    expires_at: new Date(created.getTime() + 86_400_000).toISOString(),
    archived_at: null,
    cancel_initiated_at: null,
    results_url: status === 'ended' ? `https://api.anthropic.com/v1/messages/batches/${id}/results` : null,
  });

  function answer({ method, path, body }: ScriptedRequest): [number, object | string] {
    const { pathname, searchParams } = new URL(path, 'http://provider');
    if (pathname === '/v1/models') {
      return [200, { data: [{ type: 'model', id: model, display_name: model, created_at: '2026-01-01T00:00:00Z' }] }];
    }
    providerRequests.push(`${method} ${path}`);
    const [id, below] = pathname.slice('/v1/messages/batches'.length).split('/').slice(1);
    if (id === undefined && method === 'POST') {
      const name = `msgbatch_${batches.size}${Date.now()}`;
      const stored: Stored = { body: body.toString(), created: new Date(), status: 'in_progress', lines: [] };
      batches.set(name, stored);
      return [200, shown(name, stored)];
    }
    if (id === undefined) {
      const after = searchParams.get('after_id');
      const all = [...batches].reverse();
      const from = after === null ? 0 : all.findIndex(([name]) => name === after) + 1;
      return [200, { data: all.slice(from).map(([name, stored]) => shown(name, stored)), has_more: false }];
    }
    const stored = batches.get(id);
    if (stored === undefined) {
      return [404, { type: 'error', error: { type: 'not_found_error', message: `There is no batch ${id}` } }];
    }
    if (method === 'DELETE') {
      batches.delete(id);
      return [200, { id, type: 'message_batch_deleted' }];
    }
    if (below === 'cancel') stored.status = 'canceling';
    if (below === 'results') return [200, stored.lines.map((line) => `${JSON.stringify(line)}\n`).join('')];
    return [200, shown(id, stored)];
  }

  return {
    requests: providerRequests,
    script(request, response) {
      const [status, said] = answer(request);
      const type = typeof said === 'string' ? 'application/x-jsonl' : 'application/json';
      response.writeHead(status, { 'content-type': type });
      response.end(typeof said === 'string' ? said : JSON.stringify(said));
    },
    bodyOf: (id) => batches.get(id)?.body ?? '',
    end(id, odd) {
      const stored = batches.get(id);
      if (stored === undefined) throw new Error(`there is no batch ${id}`);
      const { requests }: { requests: { custom_id: string }[] } = JSON.parse(stored.body);
      stored.status = 'ended';
      stored.lines = requests.map(({ custom_id }) => ({ custom_id, result: resultOf(custom_id, model, odd) }));
    },
  };
}

function resultOf(id: string, model: string, odd: Parameters<MessageBatchStore['end']>[1]): object {
  if (odd?.id !== id) {
    const content = [{ type: 'text', text: `answer to ${id}` }];
    const message = { id: `msg_${id}`, type: 'message', role: 'assistant', model, content, stop_reason: 'end_turn' };
    return { type: 'succeeded', message: { ...message, stop_sequence: null, usage } };
  }
  if (odd.type !== 'errored') return { type: odd.type };
  return { type: 'errored', error: { type: 'error', error: { type: 'invalid_request_error', message: 'odd' } } };
}
