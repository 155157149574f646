import { describe, expect, it } from 'vitest';
import { viewsIn, withoutView, withView } from '../../../dashboard/src/pages/audit/view-list.ts';

describe('saved views', () => {
  const views = [
    { name: 'Errors', query: 'outcome=failed' },
    { name: 'Mine', query: 'user_path=/me' },
  ];

  it('are replaced by name, and the newest is the first', () => {
    expect(withView(views, { name: 'Mine', query: 'user_path=/me/too' })).toEqual([
      { name: 'Mine', query: 'user_path=/me/too' },
      { name: 'Errors', query: 'outcome=failed' },
    ]);
    expect(withoutView(views, 'Errors')).toEqual([{ name: 'Mine', query: 'user_path=/me' }]);
  });

  it('are at most 50', () => {
    let many = views as ReturnType<typeof withView>;
    for (let n = 0; n < 60; n++) many = withView(many, { name: `View ${n}`, query: '' });
    expect(many).toHaveLength(50);
    expect(many[0]?.name).toBe('View 59');
  });

  it('are read from the storage as far as they have the form', () => {
    expect(viewsIn([...views, { name: 1 }, null, 'x', { name: 'No query' }])).toEqual(views);
    expect(viewsIn({ name: 'Errors' })).toBeUndefined();
    expect(viewsIn(null)).toBeUndefined();
  });
});
