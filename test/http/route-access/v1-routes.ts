/** The routes of the /v1 API. */
import { user } from '../../support/with-gateway.ts';
import type { Row } from './row.ts';
import {
  backgroundOf,
  batchOf,
  conversationOf,
  ECHO,
  fileForm,
  fileOf,
  itemOf,
  MODEL,
  messageBatch,
  messageBatchOf,
  responseOf,
} from './stored-objects.ts';

const batch = (id: string) => ({ input_file_id: id, endpoint: '/v1/chat/completions', completion_window: '24h' });

function audio(): FormData {
  const form = new FormData();
  form.append('model', ECHO);
  form.append('file', new Blob(['sound']), 'a.wav');
  return form;
}

function picture(): FormData {
  const form = new FormData();
  form.append('model', ECHO);
  form.append('prompt', 'a hat');
  form.append('image', new Blob(['pixels'], { type: 'image/png' }), 'a.png');
  return form;
}

function call(): FormData {
  const form = new FormData();
  form.append('sdp', 'v=0');
  form.append('session', JSON.stringify({ model: MODEL }));
  return form;
}

// no key, unbound plain, bound plain, other tenant, scoped admin, global admin, master
export const v1Routes: readonly Row[] = [
  // Requests to models.
  {
    route: 'POST /v1/chat/completions',
    body: () => ({ model: MODEL, messages: user('hi'), max_tokens: 9 }),
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  // Without an upgrade.
  { route: 'GET /v1/responses', answers: [401, 426, 426, 426, 426, 426, 426] },
  { route: 'GET /v1/realtime', answers: [401, 426, 426, 426, 426, 426, 426] },
  {
    route: 'POST /v1/realtime/client_secrets',
    body: () => ({ session: { model: MODEL } }),
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  // Its provider has no sessions.
  {
    route: 'POST /v1/realtime/calls',
    body: call,
    answers: [401, 501, 501, 501, 501, 501, 501],
  },
  {
    route: 'POST /v1/messages',
    body: () => ({ model: MODEL, messages: user('hi'), max_tokens: 9 }),
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'POST /v1/messages/count_tokens',
    body: () => ({ model: MODEL, messages: user('hi') }),
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'POST /v1/embeddings',
    body: () => ({ model: MODEL, input: 'hi' }),
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'POST /v1/responses',
    body: () => ({ model: MODEL, input: 'hi' }),
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'POST /v1/responses/input_tokens',
    body: () => ({ model: ECHO, input: 'hi' }),
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'POST /v1/responses/compact',
    body: () => ({ model: ECHO, input: 'hi' }),
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'POST /v1/completions',
    body: () => ({ model: ECHO, prompt: 'hi' }),
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'POST /v1/audio/speech',
    body: () => ({ model: ECHO, input: 'hi', voice: 'v' }),
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'POST /v1/audio/transcriptions',
    body: audio,
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'POST /v1/audio/translations',
    body: audio,
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'POST /v1/images/generations',
    body: () => ({ model: ECHO, prompt: 'hi' }),
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'POST /v1/images/edits',
    body: picture,
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'GET /v1/models',
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'GET /v1/models/*',
    path: () => `/v1/models/${MODEL}`,
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'GET /v1/usage',
    answers: [401, 200, 200, 200, 200, 200, 200],
  },

  // Requests that build on stored objects.
  {
    route: 'POST /v1/responses',
    about: 'after a response of a tenant',
    make: responseOf('/team/a'),
    body: (id) => ({ model: MODEL, input: 'hi', previous_response_id: id }),
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'POST /v1/responses',
    about: 'in a conversation of a tenant',
    make: conversationOf('/team/a'),
    body: (id) => ({ model: MODEL, input: 'hi', conversation: id }),
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'POST /v1/batches',
    about: 'from a file of a tenant',
    make: fileOf('/team/a'),
    body: batch,
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'POST /v1/responses',
    about: 'after a response of another tenant',
    make: responseOf('/third'),
    body: (id) => ({ model: MODEL, input: 'hi', previous_response_id: id }),
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'POST /v1/responses',
    about: 'in a conversation of another tenant',
    make: conversationOf('/third'),
    body: (id) => ({ model: MODEL, input: 'hi', conversation: id }),
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'POST /v1/batches',
    about: 'from a file of another tenant',
    make: fileOf('/third'),
    body: batch,
    answers: [401, 404, 404, 404, 404, 200, 200],
  },

  // Stored objects of a tenant.
  {
    route: 'GET /v1/responses/:id',
    about: 'of a tenant',
    make: responseOf('/team/a'),
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'GET /v1/responses/:id/input_items',
    about: 'of a tenant',
    make: responseOf('/team/a'),
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'POST /v1/responses/:id/cancel',
    about: 'of a tenant',
    make: backgroundOf('/team/a'),
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'DELETE /v1/responses/:id',
    about: 'of a tenant',
    make: responseOf('/team/a'),
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'GET /v1/conversations/:id',
    about: 'of a tenant',
    make: conversationOf('/team/a'),
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'POST /v1/conversations/:id',
    about: 'of a tenant',
    make: conversationOf('/team/a'),
    body: () => ({ metadata: { a: 'b' } }),
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'DELETE /v1/conversations/:id',
    about: 'of a tenant',
    make: conversationOf('/team/a'),
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'GET /v1/conversations/:id/items',
    about: 'of a tenant',
    make: conversationOf('/team/a'),
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'POST /v1/conversations/:id/items',
    about: 'of a tenant',
    make: conversationOf('/team/a'),
    body: () => ({ items: [{ type: 'message', role: 'user', content: 'more' }] }),
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'GET /v1/conversations/:id/items/:item',
    about: 'of a tenant',
    make: itemOf('/team/a'),
    path: (id) => `/v1/conversations/${id}`,
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'DELETE /v1/conversations/:id/items/:item',
    about: 'of a tenant',
    make: itemOf('/team/a'),
    path: (id) => `/v1/conversations/${id}`,
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'GET /v1/files/:id',
    about: 'of a tenant',
    make: fileOf('/team/a'),
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'GET /v1/files/:id/content',
    about: 'of a tenant',
    make: fileOf('/team/a'),
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'DELETE /v1/files/:id',
    about: 'of a tenant',
    make: fileOf('/team/a'),
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'GET /v1/batches/:id',
    about: 'of a tenant',
    make: batchOf('/team/a'),
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'GET /v1/batches/:id/results',
    about: 'of a tenant',
    make: batchOf('/team/a'),
    answers: [401, 404, 409, 404, 409, 409, 409],
  },
  {
    route: 'POST /v1/batches/:id/cancel',
    about: 'of a tenant',
    make: batchOf('/team/a'),
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'GET /v1/files',
    about: 'with one of a tenant',
    make: fileOf('/team/a'),
    answers: [401, 200, 200, 200, 200, 200, 200],
    shows: [false, false, true, false, true, true, true],
  },
  {
    route: 'GET /v1/batches',
    about: 'with one of a tenant',
    make: batchOf('/team/a'),
    answers: [401, 200, 200, 200, 200, 200, 200],
    shows: [false, false, true, false, true, true, true],
  },
  {
    route: 'GET /v1/messages/batches/:id',
    about: 'of a tenant',
    make: messageBatchOf('/team/a'),
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'POST /v1/messages/batches/:id/cancel',
    about: 'of a tenant',
    make: messageBatchOf('/team/a'),
    answers: [401, 404, 200, 404, 200, 200, 200],
  },
  {
    route: 'GET /v1/messages/batches/:id/results',
    about: 'of a tenant',
    make: messageBatchOf('/team/a'),
    answers: [401, 404, 409, 404, 409, 409, 409],
  },
  {
    route: 'DELETE /v1/messages/batches/:id',
    about: 'of a tenant',
    make: messageBatchOf('/team/a'),
    answers: [401, 404, 400, 404, 400, 400, 400],
  },
  {
    route: 'GET /v1/messages/batches',
    about: 'with one of a tenant',
    make: messageBatchOf('/team/a'),
    answers: [401, 200, 200, 200, 200, 200, 200],
    shows: [false, false, true, false, true, true, true],
  },

  // Stored objects of another tenant.
  {
    route: 'GET /v1/responses/:id',
    about: 'of another tenant',
    make: responseOf('/third'),
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'GET /v1/responses/:id/input_items',
    about: 'of another tenant',
    make: responseOf('/third'),
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'POST /v1/responses/:id/cancel',
    about: 'of another tenant',
    make: backgroundOf('/third'),
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'DELETE /v1/responses/:id',
    about: 'of another tenant',
    make: responseOf('/third'),
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'GET /v1/conversations/:id',
    about: 'of another tenant',
    make: conversationOf('/third'),
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'POST /v1/conversations/:id',
    about: 'of another tenant',
    make: conversationOf('/third'),
    body: () => ({ metadata: { a: 'b' } }),
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'DELETE /v1/conversations/:id',
    about: 'of another tenant',
    make: conversationOf('/third'),
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'GET /v1/conversations/:id/items',
    about: 'of another tenant',
    make: conversationOf('/third'),
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'POST /v1/conversations/:id/items',
    about: 'of another tenant',
    make: conversationOf('/third'),
    body: () => ({ items: [{ type: 'message', role: 'user', content: 'more' }] }),
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'GET /v1/conversations/:id/items/:item',
    about: 'of another tenant',
    make: itemOf('/third'),
    path: (id) => `/v1/conversations/${id}`,
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'DELETE /v1/conversations/:id/items/:item',
    about: 'of another tenant',
    make: itemOf('/third'),
    path: (id) => `/v1/conversations/${id}`,
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'GET /v1/files/:id',
    about: 'of another tenant',
    make: fileOf('/third'),
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'GET /v1/files/:id/content',
    about: 'of another tenant',
    make: fileOf('/third'),
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'DELETE /v1/files/:id',
    about: 'of another tenant',
    make: fileOf('/third'),
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'GET /v1/batches/:id',
    about: 'of another tenant',
    make: batchOf('/third'),
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'GET /v1/batches/:id/results',
    about: 'of another tenant',
    make: batchOf('/third'),
    answers: [401, 404, 404, 404, 404, 409, 409],
  },
  {
    route: 'POST /v1/batches/:id/cancel',
    about: 'of another tenant',
    make: batchOf('/third'),
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'GET /v1/files',
    about: 'with one of another tenant',
    make: fileOf('/third'),
    answers: [401, 200, 200, 200, 200, 200, 200],
    shows: [false, false, false, false, false, true, true],
  },
  {
    route: 'GET /v1/batches',
    about: 'with one of another tenant',
    make: batchOf('/third'),
    answers: [401, 200, 200, 200, 200, 200, 200],
    shows: [false, false, false, false, false, true, true],
  },
  {
    route: 'GET /v1/messages/batches/:id',
    about: 'of another tenant',
    make: messageBatchOf('/third'),
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'POST /v1/messages/batches/:id/cancel',
    about: 'of another tenant',
    make: messageBatchOf('/third'),
    answers: [401, 404, 404, 404, 404, 200, 200],
  },
  {
    route: 'GET /v1/messages/batches/:id/results',
    about: 'of another tenant',
    make: messageBatchOf('/third'),
    answers: [401, 404, 404, 404, 404, 409, 409],
  },
  {
    route: 'DELETE /v1/messages/batches/:id',
    about: 'of another tenant',
    make: messageBatchOf('/third'),
    answers: [401, 404, 404, 404, 404, 400, 400],
  },
  {
    route: 'GET /v1/messages/batches',
    about: 'with one of another tenant',
    make: messageBatchOf('/third'),
    answers: [401, 200, 200, 200, 200, 200, 200],
    shows: [false, false, false, false, false, true, true],
  },

  // Creation.
  { route: 'POST /v1/messages/batches', body: () => messageBatch, answers: [401, 200, 200, 200, 200, 200, 200] },
  {
    route: 'POST /v1/conversations',
    body: () => ({}),
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'POST /v1/files',
    body: fileForm,
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
];
