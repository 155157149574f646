/** Routes of the providers' own APIs: stateless ones are open to all, others to callers that see everything. */
import type { Row } from './row.ts';
import { fileOf } from './stored-objects.ts';

const stateless = (path: string) => () => `/p/openai-echo/v1/${path}`;
/** The provider answers everything. */
const stored = () => '/p/openai-echo/v1/files/file-of-somebody';

// no key, unbound plain, bound plain, other tenant, scoped admin, global admin, master
export const passthroughRoutes: readonly Row[] = [
  {
    route: 'GET /p/:provider/*',
    about: 'stateless',
    path: stateless('models'),
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'HEAD /p/:provider/*',
    about: 'stateless',
    path: stateless('models'),
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'POST /p/:provider/*',
    about: 'stateless',
    path: stateless('embeddings'),
    body: () => ({ model: 'scripted', input: 'hi' }),
    answers: [401, 200, 200, 200, 200, 200, 200],
  },
  {
    route: 'GET /p/:provider/*',
    about: 'what may be stored',
    path: stored,
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'HEAD /p/:provider/*',
    about: 'what may be stored',
    path: stored,
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'OPTIONS /p/:provider/*',
    about: 'what may be stored',
    path: stored,
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'POST /p/:provider/*',
    about: 'what may be stored',
    path: stored,
    body: () => ({}),
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'PUT /p/:provider/*',
    about: 'what may be stored',
    path: stored,
    body: () => ({}),
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'PATCH /p/:provider/*',
    about: 'what may be stored',
    path: stored,
    body: () => ({}),
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'DELETE /p/:provider/*',
    about: 'what may be stored',
    path: stored,
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'GET /p/:provider/*',
    about: 'a file of a tenant',
    make: fileOf('/team/a'),
    path: (id) => `/p/openai/v1/files/${id}`,
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'GET /p/:provider/*',
    about: 'a file of another tenant',
    make: fileOf('/third'),
    path: (id) => `/p/openai/v1/files/${id}`,
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'GET /p/:provider/*',
    about: 'the list of files',
    make: fileOf('/third'),
    path: () => '/p/openai/v1/files',
    answers: [401, 403, 403, 403, 403, 200, 200],
    shows: [false, false, false, false, false, true, true],
  },
  {
    route: 'DELETE /p/:provider/*',
    about: 'a file of another tenant',
    make: fileOf('/third'),
    path: (id) => `/p/openai/v1/files/${id}`,
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
];
