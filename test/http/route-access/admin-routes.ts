/** The routes of the admin API. */
import type { Row } from './row.ts';
import { exchangeBy, keyOf, MODEL, setting } from './stored-objects.ts';

// no key, unbound plain, bound plain, other tenant, scoped admin, global admin, master
export const adminRoutes: readonly Row[] = [
  { route: 'GET /admin/live/logs', answers: [401, 403, 403, 403, 403, 200, 200] },

  // History.
  {
    route: 'GET /admin/explain',
    make: keyOf('/team/b'),
    path: (id) => `/admin/explain?model=llamacpp/simulated-small&key=${id}`,
    answers: [401, 403, 403, 403, 200, 200, 200],
  },
  {
    route: 'GET /admin/history',
    make: keyOf('/team/b'),
    path: (id) => `/admin/history?subject=key:${id}`,
    answers: [401, 403, 403, 403, 200, 200, 200],
  },

  // The audit log, without an analytics to ask.
  { route: 'GET /admin/audit/log', answers: [401, 403, 403, 403, 200, 200, 200] },
  { route: 'GET /admin/audit/sessions', answers: [401, 403, 403, 403, 200, 200, 200] },
  { route: 'GET /admin/audit/stats', answers: [401, 403, 403, 403, 200, 200, 200] },
  {
    route: 'GET /admin/audit/detail',
    path: () => '/admin/audit/detail?log_id=none',
    answers: [401, 403, 403, 403, 404, 404, 404],
  },
  {
    route: 'GET /admin/audit/conversation',
    path: () => '/admin/audit/conversation?log_id=none',
    answers: [401, 403, 403, 403, 404, 200, 200],
  },
  { route: 'GET /admin/audit/export', answers: [401, 403, 403, 403, 503, 503, 503] },
  { route: 'POST /admin/sql', body: () => ({ query: 'SELECT 1' }), answers: [401, 403, 403, 403, 403, 503, 503] },

  // Providers, models, switches, tags.
  { route: 'GET /admin/providers/status', answers: [401, 403, 403, 403, 403, 200, 200] },
  { route: 'GET /admin/provider-credentials', answers: [401, 403, 403, 403, 403, 200, 200] },
  { route: 'GET /admin/provider-credentials/types', answers: [401, 403, 403, 403, 403, 200, 200] },
  {
    route: 'PUT /admin/provider-credentials',
    body: () => ({ name: 'another', type: 'vllm', base_url: 'http://192.0.2.1/v1', enabled: false }),
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'DELETE /admin/provider-credentials/:name',
    make: setting('/admin/provider-credentials', {
      name: 'removed',
      type: 'vllm',
      base_url: 'http://192.0.2.1/v1',
      enabled: false,
    }),
    path: () => '/admin/provider-credentials/removed',
    answers: [401, 403, 403, 403, 403, 204, 204],
  },
  { route: 'GET /admin/models', answers: [401, 403, 403, 403, 200, 200, 200] },
  { route: 'GET /admin/models/categories', answers: [401, 403, 403, 403, 200, 200, 200] },
  { route: 'GET /admin/runtime/config', answers: [401, 403, 403, 403, 200, 200, 200] },
  { route: 'GET /admin/runtime/settings', answers: [401, 403, 403, 403, 403, 200, 200] },
  {
    route: 'PUT /admin/runtime/settings/:key',
    body: () => ({ value: 'on' }),
    answers: [401, 403, 403, 403, 403, 404, 404],
  },
  { route: 'POST /admin/runtime/refresh', answers: [401, 403, 403, 403, 403, 200, 200] },
  { route: 'GET /admin/tagging/settings', answers: [401, 403, 403, 403, 403, 200, 200] },
  { route: 'PUT /admin/tagging/settings', body: () => ({ headers: [] }), answers: [401, 403, 403, 403, 403, 200, 200] },

  // Usage.
  { route: 'GET /admin/usage/summary', answers: [401, 403, 403, 403, 200, 200, 200] },
  { route: 'GET /admin/usage/daily', answers: [401, 403, 403, 403, 200, 200, 200] },
  { route: 'GET /admin/usage/models', answers: [401, 403, 403, 403, 200, 200, 200] },
  { route: 'GET /admin/usage/user-paths', answers: [401, 403, 403, 403, 200, 200, 200] },
  { route: 'GET /admin/usage/labels', answers: [401, 403, 403, 403, 200, 200, 200] },
  { route: 'GET /admin/usage/sessions', answers: [401, 403, 403, 403, 200, 200, 200] },
  { route: 'GET /admin/usage/log', answers: [401, 403, 403, 403, 200, 200, 200] },
  {
    route: 'GET /admin/usage/throughput',
    path: () => '/admin/usage/throughput?granularity=hour',
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  { route: 'GET /admin/cache/overview', answers: [401, 403, 403, 403, 403, 503, 503] },

  // Access, keys, users.
  { route: 'GET /admin/access', answers: [401, 403, 403, 403, 200, 200, 200] },
  { route: 'GET /admin/auth-keys', answers: [401, 403, 403, 403, 200, 200, 200] },
  { route: 'POST /admin/auth-keys', body: () => ({ name: 'another' }), answers: [401, 403, 403, 403, 201, 201, 201] },
  {
    route: 'PUT /admin/auth-keys/labels/rename',
    body: () => ({ from: 'no such label', to: 'another' }),
    answers: [401, 403, 403, 403, 200, 200, 200],
  },
  {
    route: 'PUT /admin/auth-keys/:id/labels',
    make: keyOf('/team/b'),
    path: (id) => `/admin/auth-keys/${id}/labels`,
    body: () => ({ labels: ['a'] }),
    answers: [401, 403, 403, 403, 200, 200, 200],
  },
  {
    route: 'PUT /admin/auth-keys/:id/allowed-models',
    make: keyOf('/team/b'),
    path: (id) => `/admin/auth-keys/${id}/allowed-models`,
    body: () => ({ allowed_models: [] }),
    answers: [401, 403, 403, 403, 200, 200, 200],
  },
  {
    route: 'PUT /admin/auth-keys/:id/dashboard-access',
    make: keyOf('/team/b'),
    path: (id) => `/admin/auth-keys/${id}/dashboard-access`,
    body: () => ({ dashboard_access: false }),
    answers: [401, 403, 403, 403, 200, 200, 200],
  },
  {
    route: 'PUT /admin/auth-keys/:id/user-path-header',
    make: keyOf('/team/b'),
    path: (id) => `/admin/auth-keys/${id}/user-path-header`,
    body: () => ({ user_path_header: false }),
    answers: [401, 403, 403, 403, 200, 200, 200],
  },
  {
    route: 'POST /admin/auth-keys/:id/deactivate',
    make: keyOf('/team/b'),
    path: (id) => `/admin/auth-keys/${id}/deactivate`,
    answers: [401, 403, 403, 403, 204, 204, 204],
  },
  { route: 'GET /admin/users', answers: [401, 403, 403, 403, 200, 200, 200] },
  {
    route: 'PUT /admin/users',
    body: () => ({ user_path: '/team/a', allowed_models: [] }),
    answers: [401, 403, 403, 403, 200, 200, 200],
  },
  {
    route: 'DELETE /admin/users',
    make: setting('/admin/users', { user_path: '/team/b', allowed_models: [] }),
    path: () => '/admin/users?user_path=/team/b',
    answers: [401, 403, 403, 403, 200, 200, 200],
  },

  // Prices.
  { route: 'GET /admin/model-pricing-overrides', answers: [401, 403, 403, 403, 403, 200, 200] },
  {
    route: 'PUT /admin/model-pricing-overrides',
    body: () => ({ selector: 'llamacpp/tiny', pricing: { input_per_mtok: 1 } }),
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'DELETE /admin/model-pricing-overrides',
    make: setting('/admin/model-pricing-overrides', { selector: 'of-a-moment', pricing: { per_request: 1 } }),
    body: () => ({ selector: 'of-a-moment' }),
    answers: [401, 403, 403, 403, 403, 204, 204],
  },
  {
    route: 'POST /admin/usage/recalculate-pricing',
    body: () => ({ confirmation: 'recalculate', days: 1 }),
    answers: [401, 403, 403, 403, 403, 200, 200],
  },

  // Budgets and rate limits.
  { route: 'GET /admin/budgets', answers: [401, 403, 403, 403, 200, 200, 200] },
  {
    route: 'PUT /admin/budgets',
    body: () => ({ user_path: '/team/a', budget_key: { period: 'daily' }, amount: 10 }),
    answers: [401, 403, 403, 403, 200, 200, 200],
  },
  {
    route: 'DELETE /admin/budgets',
    make: setting('/admin/budgets/%2Fteam%2Fb/daily', { amount: 10 }),
    body: () => ({ user_path: '/team/b', budget_key: { period: 'daily' } }),
    answers: [401, 403, 403, 403, 200, 200, 200],
  },
  {
    route: 'PUT /admin/budgets/:user_path/:period',
    path: () => '/admin/budgets/%2Fteam%2Fa/weekly',
    body: () => ({ amount: 10 }),
    answers: [401, 403, 403, 403, 200, 200, 200],
  },
  {
    route: 'DELETE /admin/budgets/:user_path/:period',
    make: setting('/admin/budgets/%2Fteam%2Fb/weekly', { amount: 10 }),
    path: () => '/admin/budgets/%2Fteam%2Fb/weekly',
    answers: [401, 403, 403, 403, 200, 200, 200],
  },
  { route: 'GET /admin/budgets/settings', answers: [401, 403, 403, 403, 200, 200, 200] },
  {
    route: 'PUT /admin/budgets/settings',
    body: () => ({ daily_reset_hour: 0 }),
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'POST /admin/budgets/reset-one',
    make: setting('/admin/budgets/%2Fteam%2Fb/monthly', { amount: 10 }),
    body: () => ({ user_path: '/team/b', period: 'monthly' }),
    answers: [401, 403, 403, 403, 200, 200, 200],
  },
  {
    route: 'POST /admin/budgets/reset',
    body: () => ({ confirmation: 'reset' }),
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  { route: 'GET /admin/rate-limits', answers: [401, 403, 403, 403, 200, 200, 200] },
  {
    route: 'PUT /admin/rate-limits',
    body: () => ({ user_path: '/team/a', limit_key: { period: 'minute' }, max_requests: 1000 }),
    answers: [401, 403, 403, 403, 200, 200, 200],
  },
  {
    route: 'DELETE /admin/rate-limits',
    make: setting('/admin/rate-limits', {
      user_path: '/team/b',
      limit_key: { period: 'hour' },
      max_requests: 1000,
    }),
    body: () => ({ user_path: '/team/b', limit_key: { period: 'hour' } }),
    answers: [401, 403, 403, 403, 200, 200, 200],
  },
  {
    route: 'POST /admin/rate-limits/reset-one',
    make: setting('/admin/rate-limits', {
      user_path: '/team/b',
      limit_key: { period: 'day' },
      max_requests: 1000,
    }),
    body: () => ({ user_path: '/team/b', period: 'day' }),
    answers: [401, 403, 403, 403, 200, 200, 200],
  },
  {
    route: 'POST /admin/rate-limits/reset',
    body: () => ({ confirmation: 'reset' }),
    answers: [401, 403, 403, 403, 403, 200, 200],
  },

  // Virtual models.
  { route: 'GET /admin/virtual-models', answers: [401, 403, 403, 403, 403, 200, 200] },
  {
    route: 'PUT /admin/virtual-models',
    body: () => ({ source: 'alias', target_model: 'any' }),
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'DELETE /admin/virtual-models',
    make: setting('/admin/virtual-models', { source: 'gone', target_model: 'any' }),
    body: () => ({ source: 'gone' }),
    answers: [401, 403, 403, 403, 403, 204, 204],
  },

  // What belongs to another tenant.
  {
    route: 'GET /admin/auth-keys',
    about: 'with one of another tenant',
    make: keyOf('/third'),
    answers: [401, 403, 403, 403, 200, 200, 200],
    shows: [false, false, false, false, false, true, true],
  },
  {
    route: 'POST /admin/auth-keys',
    about: 'for another tenant',
    body: () => ({ name: 'another', user_path: '/third' }),
    answers: [401, 403, 403, 403, 403, 201, 201],
  },
  {
    route: 'PUT /admin/auth-keys/:id/labels',
    about: 'of another tenant',
    make: keyOf('/third'),
    body: () => ({ labels: ['a'] }),
    answers: [401, 403, 403, 403, 404, 200, 200],
  },
  {
    route: 'PUT /admin/auth-keys/:id/allowed-models',
    about: 'of another tenant',
    make: keyOf('/third'),
    body: () => ({ allowed_models: [] }),
    answers: [401, 403, 403, 403, 404, 200, 200],
  },
  {
    route: 'PUT /admin/auth-keys/:id/dashboard-access',
    about: 'of another tenant',
    make: keyOf('/third'),
    body: () => ({ dashboard_access: true }),
    answers: [401, 403, 403, 403, 404, 200, 200],
  },
  {
    route: 'PUT /admin/auth-keys/:id/user-path-header',
    about: 'of another tenant',
    make: keyOf('/third'),
    body: () => ({ user_path_header: false }),
    answers: [401, 403, 403, 403, 404, 200, 200],
  },
  {
    route: 'POST /admin/auth-keys/:id/deactivate',
    about: 'of another tenant',
    make: keyOf('/third'),
    answers: [401, 403, 403, 403, 404, 204, 204],
  },
  {
    route: 'GET /admin/history',
    about: 'of a key of another tenant',
    make: keyOf('/third'),
    path: (id) => `/admin/history?subject=key:${id}`,
    answers: [401, 403, 403, 403, 404, 200, 200],
  },
  {
    route: 'GET /admin/explain',
    about: 'with a key of another tenant',
    make: keyOf('/third'),
    path: (id) => `/admin/explain?model=${MODEL}&key=${id}`,
    answers: [401, 403, 403, 403, 404, 200, 200],
  },
  {
    route: 'GET /admin/explain',
    about: 'for the path of another tenant',
    path: () => `/admin/explain?model=${MODEL}&user_path=/third`,
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'GET /admin/audit/detail',
    about: 'of a tenant',
    make: exchangeBy('/team/a'),
    path: (id) => `/admin/audit/detail?log_id=${id}`,
    answers: [401, 403, 403, 403, 200, 200, 200],
  },
  {
    route: 'GET /admin/audit/detail',
    about: 'of another tenant',
    make: exchangeBy('/third'),
    path: (id) => `/admin/audit/detail?log_id=${id}`,
    answers: [401, 403, 403, 403, 404, 200, 200],
  },
  {
    route: 'GET /admin/audit/conversation',
    about: 'of a tenant',
    make: exchangeBy('/team/a'),
    path: (id) => `/admin/audit/conversation?log_id=${id}`,
    answers: [401, 403, 403, 403, 200, 200, 200],
  },
  {
    route: 'GET /admin/audit/conversation',
    about: 'of another tenant',
    make: exchangeBy('/third'),
    path: (id) => `/admin/audit/conversation?log_id=${id}`,
    answers: [401, 403, 403, 403, 404, 200, 200],
  },
  {
    route: 'GET /admin/audit/log',
    about: 'of the path of another tenant',
    path: () => '/admin/audit/log?user_path=/third',
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'GET /admin/usage/summary',
    about: 'of the path of another tenant',
    path: () => '/admin/usage/summary?user_path=/third',
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'GET /admin/users',
    about: 'with one of another tenant',
    make: setting('/admin/users', { user_path: '/third', allowed_models: [] }, '/third'),
    answers: [401, 403, 403, 403, 200, 200, 200],
    shows: [false, false, false, false, false, true, true],
  },
  {
    route: 'PUT /admin/users',
    about: 'of another tenant',
    body: () => ({ user_path: '/third', allowed_models: [] }),
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'DELETE /admin/users',
    about: 'of another tenant',
    make: setting('/admin/users', { user_path: '/third', allowed_models: [] }),
    path: () => '/admin/users?user_path=/third',
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'GET /admin/budgets',
    about: 'with one of another tenant',
    make: setting('/admin/budgets/%2Fthird/daily', { amount: 10 }, '/third'),
    answers: [401, 403, 403, 403, 200, 200, 200],
    shows: [false, false, false, false, false, true, true],
  },
  {
    route: 'PUT /admin/budgets',
    about: 'of another tenant',
    body: () => ({ user_path: '/third', budget_key: { period: 'daily' }, amount: 10 }),
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'DELETE /admin/budgets',
    about: 'of another tenant',
    make: setting('/admin/budgets/%2Fthird/daily', { amount: 10 }),
    body: () => ({ user_path: '/third', budget_key: { period: 'daily' } }),
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'PUT /admin/budgets/:user_path/:period',
    about: 'of another tenant',
    path: () => '/admin/budgets/%2Fthird/weekly',
    body: () => ({ amount: 10 }),
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'DELETE /admin/budgets/:user_path/:period',
    about: 'of another tenant',
    make: setting('/admin/budgets/%2Fthird/weekly', { amount: 10 }),
    path: () => '/admin/budgets/%2Fthird/weekly',
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'POST /admin/budgets/reset-one',
    about: 'of another tenant',
    make: setting('/admin/budgets/%2Fthird/monthly', { amount: 10 }),
    body: () => ({ user_path: '/third', period: 'monthly' }),
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'GET /admin/rate-limits',
    about: 'with one of another tenant',
    make: setting(
      '/admin/rate-limits',
      { user_path: '/third', limit_key: { period: 'minute' }, max_requests: 1000 },
      '/third',
    ),
    answers: [401, 403, 403, 403, 200, 200, 200],
    shows: [false, false, false, false, false, true, true],
  },
  {
    route: 'PUT /admin/rate-limits',
    about: 'of another tenant',
    body: () => ({ user_path: '/third', limit_key: { period: 'minute' }, max_requests: 1000 }),
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'DELETE /admin/rate-limits',
    about: 'of another tenant',
    make: setting('/admin/rate-limits', { user_path: '/third', limit_key: { period: 'hour' }, max_requests: 1000 }),
    body: () => ({ user_path: '/third', limit_key: { period: 'hour' } }),
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
  {
    route: 'POST /admin/rate-limits/reset-one',
    about: 'of another tenant',
    make: setting('/admin/rate-limits', { user_path: '/third', limit_key: { period: 'day' }, max_requests: 1000 }),
    body: () => ({ user_path: '/third', period: 'day' }),
    answers: [401, 403, 403, 403, 403, 200, 200],
  },
];
