export default {
  name: 'counter',
  version: 3,
  fold(draft) {
    const count = draft.meta('count') ?? 0;
    draft.setMeta('count', count + 1);
  },
};
