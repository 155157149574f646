/** A resource for a test of the kernel: texts that administrators show to the users at a path and below it. */
import { z } from 'zod';
import { refusals } from '../../src/commands/refusal.ts';
import { defineEvent } from '../../src/events/catalogue/define.ts';
import type { UserPath } from '../../src/events/event.ts';
import { asOfQuery, oneAsOf } from '../../src/http/admin/parameters.ts';
import { type ResourceParts, registerResource, savedAnswer } from '../../src/http/admin/resource.ts';
import { queryOfParameters, textParameter } from '../../src/http/api/parameters.ts';
import { emptyAnswer, jsonAnswer, pathParameters, type Routes, scopedAdmin } from '../../src/http/api/route-schema.ts';
import { optionalUserPath } from '../../src/http/request-head.ts';
import { administeredView } from '../../src/projections/administered.ts';

const saved = defineEvent({
  type: 'announcement.saved',
  when: 'An administrator created or changed an announcement.',
  data: z.object({ name: z.string(), userPath: z.string(), text: z.string() }),
});

const removed = defineEvent({
  type: 'announcement.removed',
  when: 'An administrator removed an announcement.',
  data: z.object({ name: z.string() }),
});

type Announcement = z.infer<typeof saved.data>;

const kind = { name: 'announcements', version: 1, saved, removed, key: 'name' } as const;

export const announcementsView = administeredView(kind);

/** For the history and for lists of a past time. */
export const announcementSubject = { category: 'announcement', types: ['announcement.'] };

const row = z.object({ name: z.string(), user_path: z.string(), text: z.string(), ...savedAnswer });
const body = z.strictObject({ name: z.string().min(1), user_path: z.string().optional(), text: z.string().max(1000) });
const changes = { ifMatch: '/announcements/:name' } as const;

const announcements = {
  kind,
  category: announcementSubject.category,
  noun: 'announcement',
  path: '/announcements',
  routes: {
    list: scopedAdmin('listAnnouncements', 'List the announcements', {
      querystring: asOfQuery,
      response: { 200: jsonAnswer('Those in the scope of the caller, by name', z.array(row)) },
    }),
    get: scopedAdmin('getAnnouncement', 'Get one announcement', {
      ...oneAsOf,
      params: pathParameters({ name: 'Its name' }),
      response: { 200: jsonAnswer('The announcement', row) },
    }),
    save: scopedAdmin('saveAnnouncement', 'Create or change an announcement', {
      ...changes,
      body,
      example: { name: 'maintenance', text: 'On Sunday from 2:00 to 3:00.' },
      response: { 200: jsonAnswer('The announcement', row) },
      // Of a name that another subtree has.
      errors: [404],
    }),
    remove: scopedAdmin('removeAnnouncement', 'Remove an announcement', {
      ...changes,
      querystring: queryOfParameters({ name: textParameter('Its name') }),
      response: { 204: emptyAnswer('It is removed') },
      errors: [404],
    }),
  },
  keyOf: (given: string) => given,
  parseValue({ name, user_path, text }: z.infer<typeof body>, _saved: unknown, scope: UserPath | undefined) {
    const userPath = optionalUserPath(user_path, 'user_path') ?? scope ?? '/';
    if (text.trim() === '') throw refusals.invalidRequest("'text' must not be empty.", 'text');
    return { name, userPath, text };
  },
  rowOf: ({ name, userPath, text }: Announcement) => ({ name, user_path: userPath, text }),
  pathOf: ({ userPath }: Announcement) => userPath as UserPath,
};

export const registerAnnouncements = (admin: Routes, parts: ResourceParts<Announcement>) =>
  registerResource(admin, announcements, parts);
