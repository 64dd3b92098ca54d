export default { name: 'unversioned', fold() {} };
