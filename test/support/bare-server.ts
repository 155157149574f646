/** An HTTP server without the gateway's rules, for a test of single routes: their schemas describe and do nothing else. */
import Fastify from 'fastify';
import type { ZodTypes } from '../../src/http/api/route-schema.ts';
import { validateNothing } from '../../src/http/api/validation.ts';

export function bareServer() {
  const app = Fastify({ forceCloseConnections: 'idle' }).withTypeProvider<ZodTypes>();
  app.setValidatorCompiler(validateNothing as never);
  app.setSerializerCompiler(() => JSON.stringify);
  return app;
}
