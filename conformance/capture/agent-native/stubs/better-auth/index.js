const uncalled = () => {
  throw new Error('a stub was called');
};
export { uncalled as betterAuth, uncalled as bearer, uncalled as jwt };
