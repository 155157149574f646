/** The realtime family: client secrets, on stream `realtime_secret-<id>`. Sessions are exchanges. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

export const clientSecretCreated = defineEvent({
  type: 'client_secret.created',
  when: 'A client created a short-lived secret for realtime sessions. It is on disk before the secret is sent.',
  body: 'the configuration of its sessions as JSON',
  data: z.object({
    secretHash: z.string().describe('SHA-256 of the secret, hexadecimal'),
    model: z.string().describe('the selector of the model of its sessions'),
    expiresAt: z.number().int().describe('milliseconds since the epoch: it begins no session from then on'),
  }),
});
