/** The routes that ask a model: each hands its bytes to the exchange in its own dialect. */
import type { FastifyInstance } from 'fastify';
import type { Client, ModelRequest } from '../../commands/exchange/client.ts';
import type { ExchangeDialect } from '../../commands/exchange/dialect.ts';
import type { OpenExchanges } from '../open-exchanges.ts';

export function registerModelRoutes(
  app: FastifyInstance,
  options: {
    readonly dialects: readonly ExchangeDialect[];
    readonly exchanges: OpenExchanges;
    readonly run: (dialect: ExchangeDialect, request: ModelRequest, client: Client) => Promise<void>;
  },
): void {
  for (const dialect of options.dialects) {
    app.post(dialect.endpoint, { config: { access: 'any-key', limits: 'exchange' } }, (request, reply) =>
      options.exchanges.run(request, reply, (modelRequest, client) => options.run(dialect, modelRequest, client)),
    );
  }
}
