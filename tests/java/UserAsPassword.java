import javax.security.sasl.AuthenticationException;
import org.apache.hive.service.auth.PasswdAuthenticationProvider;

/** Lets in whoever gives the user's name backwards as the password; for tests of the Thrift server. */
public final class UserAsPassword implements PasswdAuthenticationProvider {
  @Override
  public void Authenticate(String user, String password) throws AuthenticationException {
    if (!new StringBuilder(user).reverse().toString().equals(password)) {
      throw new AuthenticationException("wrong password of " + user);
    }
  }
}
