import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.jar.JarFile;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ConstantDynamic;
import org.apache.xbean.asm9.Handle;
import org.apache.xbean.asm9.Opcodes;
import org.apache.xbean.asm9.Type;
import org.apache.xbean.asm9.tree.AbstractInsnNode;
import org.apache.xbean.asm9.tree.ClassNode;
import org.apache.xbean.asm9.tree.FieldInsnNode;
import org.apache.xbean.asm9.tree.FieldNode;
import org.apache.xbean.asm9.tree.InvokeDynamicInsnNode;
import org.apache.xbean.asm9.tree.LdcInsnNode;
import org.apache.xbean.asm9.tree.MethodInsnNode;
import org.apache.xbean.asm9.tree.MethodNode;
import org.apache.xbean.asm9.tree.MultiANewArrayInsnNode;
import org.apache.xbean.asm9.tree.TryCatchBlockNode;
import org.apache.xbean.asm9.tree.TypeInsnNode;

/**
 * Whether all classes of a jar link with the jars of a Spark, by the rules of the JVM (JVMS 5.3,
 * 5.4).
 *
 * <pre>
 *   java LinkCheck JAR OLDEST CHECKED      two folders of jars; prints a line for each symbol that does not fit
 *
 *   what JAR names     exists, may be accessed, is a class or an interface, static or not, as JAR says
 *   what JAR extends   is not final; final methods are not overridden
 *   concrete classes   and lambdas have an implementation of every method, and no two defaults of one
 *   overrides          of a method of OLDEST still override something in CHECKED: else nobody calls them
 * </pre>
 *
 * What is looked up by reflection is no reference, and what is of the JDK is checked by the
 * compiler (--release).
 */
public final class LinkCheck {
  private static final int MEMBERS = ClassReader.SKIP_CODE | ClassReader.SKIP_DEBUG;
  private static final String CONSTRUCTOR = "<init>";

  private final Classes oldest;
  private final Classes checked;
  private final Set<String> findings = new TreeSet<>();
  private ClassNode at;
  private int references;

  private LinkCheck(Classes oldest, Classes checked) {
    this.oldest = oldest;
    this.checked = checked;
  }

  public static void main(String[] paths) throws IOException {
    Path jar = Path.of(paths[0]);
    LinkCheck check =
        new LinkCheck(new Classes(jar, Path.of(paths[1])), new Classes(jar, Path.of(paths[2])));
    int classes = 0;
    try (JarFile file = new JarFile(jar.toFile())) {
      for (ZipEntry entry :
          file.stream().filter(one -> one.getName().endsWith(".class")).toList()) {
        try (InputStream bytes = file.getInputStream(entry)) {
          ClassNode found = new ClassNode();
          new ClassReader(bytes).accept(found, ClassReader.SKIP_DEBUG);
          check.type(found);
          classes++;
        }
      }
    }
    check.findings.forEach(System.out::println);
    System.err.println(classes + " classes, " + check.references + " references to Spark");
  }

  private void found(String what) {
    findings.add(at.name.replace('/', '.') + ": " + what.replace('/', '.'));
  }

  // -- classes
  // --------------------------------------------------------------------------------------

  private void type(ClassNode type) {
    at = type;
    ClassNode above = named(type.superName);
    if (above != null && is(above.access, Opcodes.ACC_INTERFACE)) {
      found("extends " + above.name + ", which is an interface");
    }
    if (above != null && is(above.access, Opcodes.ACC_FINAL)) {
      found("extends " + above.name + ", which is final");
    }
    for (String name : type.interfaces) {
      ClassNode one = named(name);
      if (one != null && !is(one.access, Opcodes.ACC_INTERFACE)) {
        found("implements " + name + ", which is a class");
      }
    }
    for (String name :
        Stream.concat(Stream.of(type.superName), type.interfaces.stream()).toList()) {
      ClassNode one = checked.find(name);
      if (one != null
          && one.permittedSubclasses != null
          && !one.permittedSubclasses.contains(type.name)) {
        found("is no permitted subclass of " + name);
      }
    }
    for (FieldNode field : type.fields) {
      mentioned(Type.getType(field.desc));
    }
    for (MethodNode method : type.methods) {
      method(method);
    }
    if (!is(type.access, Opcodes.ACC_ABSTRACT)) {
      implemented(type, Set.of());
    }
  }

  /**
   * The class of this name, if it exists and may be accessed; null for what the JDK or nobody has.
   */
  private ClassNode named(String name) {
    if (name.startsWith("[")) {
      classesOf(Type.getObjectType(name)).forEach(this::named);
      return null;
    }
    ClassNode type = checked.find(name);
    if (type == null) {
      found(name + " is missing");
    } else if (checked.isOfSpark(name)) {
      references++;
      if (!is(type.access, Opcodes.ACC_PUBLIC)) {
        found(name + " is not public");
      }
    }
    return type;
  }

  /** The classes of a descriptor must exist; the JVM does not ask whether they may be accessed. */
  private void mentioned(Type type) {
    for (String name : classesOf(type)) {
      if (checked.find(name) == null) {
        found(name + " is missing");
      }
    }
  }

  private static List<String> classesOf(Type type) {
    return switch (type.getSort()) {
      case Type.METHOD ->
          Stream.concat(Stream.of(type.getReturnType()), Stream.of(type.getArgumentTypes()))
              .flatMap(one -> classesOf(one).stream())
              .toList();
      case Type.ARRAY -> classesOf(type.getElementType());
      case Type.OBJECT -> List.of(type.getInternalName());
      default -> List.of(); // a primitive type
    };
  }

  // -- methods
  // --------------------------------------------------------------------------------------

  private void method(MethodNode method) {
    mentioned(Type.getMethodType(method.desc));
    method.exceptions.forEach(this::named);
    if (overrides(method.access) && !method.name.startsWith("<")) {
      overridden(method);
    }
    for (TryCatchBlockNode block : method.tryCatchBlocks) {
      if (block.type != null) {
        named(block.type);
      }
    }
    for (AbstractInsnNode one : method.instructions) {
      if (one instanceof TypeInsnNode type) {
        ClassNode named = named(type.desc);
        if (named != null
            && type.getOpcode() == Opcodes.NEW
            && is(named.access, Opcodes.ACC_ABSTRACT)) {
          found("makes a new " + type.desc + ", which is abstract");
        }
      } else if (one instanceof MultiANewArrayInsnNode array) {
        mentioned(Type.getType(array.desc));
      } else if (one instanceof FieldInsnNode field) {
        boolean isStatic =
            field.getOpcode() == Opcodes.GETSTATIC || field.getOpcode() == Opcodes.PUTSTATIC;
        boolean written =
            field.getOpcode() == Opcodes.PUTFIELD || field.getOpcode() == Opcodes.PUTSTATIC;
        field(field.owner, field.name, field.desc, isStatic, written);
      } else if (one instanceof MethodInsnNode call) {
        call(call.owner, call.name, call.desc, call.itf, call.getOpcode());
      } else if (one instanceof LdcInsnNode constant) {
        constant(constant.cst);
      } else if (one instanceof InvokeDynamicInsnNode dynamic) {
        mentioned(Type.getMethodType(dynamic.desc));
        constant(dynamic.bsm);
        Stream.of(dynamic.bsmArgs).forEach(this::constant);
        if (dynamic.bsm.getOwner().equals("java/lang/invoke/LambdaMetafactory")) {
          lambda(dynamic);
        }
      }
    }
  }

  private void constant(Object constant) {
    if (constant instanceof Type type) {
      classesOf(type).forEach(this::named);
    } else if (constant instanceof ConstantDynamic dynamic) {
      constant(dynamic.getBootstrapMethod());
      for (int i = 0; i < dynamic.getBootstrapMethodArgumentCount(); i++) {
        constant(dynamic.getBootstrapMethodArgument(i));
      }
    } else if (constant instanceof Handle handle) {
      String owner = handle.getOwner();
      switch (handle.getTag()) {
        case Opcodes.H_GETFIELD -> field(owner, handle.getName(), handle.getDesc(), false, false);
        case Opcodes.H_GETSTATIC -> field(owner, handle.getName(), handle.getDesc(), true, false);
        case Opcodes.H_PUTFIELD -> field(owner, handle.getName(), handle.getDesc(), false, true);
        case Opcodes.H_PUTSTATIC -> field(owner, handle.getName(), handle.getDesc(), true, true);
        default -> {
          int opcode =
              switch (handle.getTag()) {
                case Opcodes.H_INVOKESTATIC -> Opcodes.INVOKESTATIC;
                case Opcodes.H_INVOKEVIRTUAL -> Opcodes.INVOKEVIRTUAL;
                case Opcodes.H_INVOKEINTERFACE -> Opcodes.INVOKEINTERFACE;
                default -> Opcodes.INVOKESPECIAL;
              };
          call(owner, handle.getName(), handle.getDesc(), handle.isInterface(), opcode);
        }
      }
    }
  }

  private void field(String owner, String name, String desc, boolean isStatic, boolean written) {
    mentioned(Type.getType(desc));
    ClassNode type = named(owner);
    if (type == null || !checked.reachesSpark(owner)) {
      return;
    }
    String told = owner + "." + name + " " + desc;
    Member<FieldNode> field = checked.field(type, name, desc);
    if (field == null) {
      found(told + " is missing");
      return;
    }
    kind(told, field.node.access, isStatic);
    accessed(told, field.owner, field.node.access);
    if (written && is(field.node.access, Opcodes.ACC_FINAL) && !field.owner.name.equals(at.name)) {
      found(told + " is final");
    }
  }

  private void call(String owner, String name, String desc, boolean ofInterface, int opcode) {
    mentioned(Type.getMethodType(desc));
    ClassNode type = named(owner);
    if (type == null || !checked.reachesSpark(owner)) {
      return;
    }
    String told = owner + "." + name + desc;
    if (is(type.access, Opcodes.ACC_INTERFACE) != ofInterface) {
      found(
          owner + (ofInterface ? " became a class" : " became an interface") + ": " + name + desc);
      return;
    }
    Member<MethodNode> method = checked.method(type, name, desc);
    if (method == null) {
      found(told + " is missing");
      return;
    }
    kind(told, method.node.access, opcode == Opcodes.INVOKESTATIC);
    accessed(told, method.owner, method.node.access);
    boolean ofSuper =
        opcode == Opcodes.INVOKESPECIAL && !name.equals(CONSTRUCTOR) && !owner.equals(at.name);
    if (ofSuper && checked.implementation(type, name, desc).size() != 1) {
      found(told + " is called by super and has no implementation, or two");
    }
  }

  private void kind(String told, int access, boolean isStatic) {
    if (is(access, Opcodes.ACC_STATIC) != isStatic) {
      found(told + (isStatic ? " is not static" : " became static"));
    }
  }

  private void accessed(String told, ClassNode owner, int access) {
    boolean open =
        is(access, Opcodes.ACC_PUBLIC)
            || !checked.isOfSpark(owner.name)
            || is(access, Opcodes.ACC_PROTECTED) && checked.above(at).contains(owner);
    if (!open) {
      found(told + " is not public");
    }
  }

  // -- overriding
  // -----------------------------------------------------------------------------------

  private void overridden(MethodNode method) {
    for (ClassNode above : checked.above(at)) {
      MethodNode other = declared(above, method.name, method.desc);
      if (other == null
          || !checked.isOfSpark(above.name)
          || is(other.access, Opcodes.ACC_PRIVATE)) {
        continue;
      }
      String told = above.name + "." + method.name + method.desc;
      if (is(other.access, Opcodes.ACC_FINAL)) {
        found("overrides " + told + ", which is final");
      } else if (is(other.access, Opcodes.ACC_STATIC) && !is(above.access, Opcodes.ACC_INTERFACE)) {
        found("overrides " + told + ", which is static");
      }
    }
    String overridden = inherited(oldest, method);
    if (overridden != null && inherited(checked, method) == null) {
      found("overrides " + overridden + ", which is missing, so that nobody calls it");
    }
  }

  /** The method of Spark that this one overrides, or null. */
  private String inherited(Classes classes, MethodNode method) {
    for (ClassNode above : classes.above(at)) {
      MethodNode other = declared(above, method.name, method.desc);
      if (other != null && overrides(other.access) && classes.isOfSpark(above.name)) {
        return above.name + "." + method.name + method.desc;
      }
    }
    return null;
  }

  /** Every method that others may call on an object of this class has one implementation. */
  private void implemented(ClassNode type, Collection<String> given) {
    Set<String> seen = new HashSet<>(given);
    for (ClassNode above : checked.above(type)) {
      if (!checked.isOfSpark(above.name)) {
        continue; // of two classes of ours, or of the JDK, the compiler knows it
      }
      for (MethodNode method : above.methods) {
        if (!overrides(method.access)
            || method.name.startsWith("<")
            || !seen.add(method.name + method.desc)) {
          continue;
        }
        List<ClassNode> found = checked.implementation(type, method.name, method.desc);
        String told = above.name + "." + method.name + method.desc;
        if (found.isEmpty()) {
          found("does not implement " + told);
        } else if (found.size() > 1) {
          found(
              "inherits two defaults of "
                  + told
                  + ": "
                  + found.get(0).name
                  + " and "
                  + found.get(1).name);
        }
      }
    }
  }

  /**
   * The interface of a lambda or method reference has no abstract method but the one of the lambda.
   */
  private void lambda(InvokeDynamicInsnNode dynamic) {
    ClassNode type = checked.find(Type.getReturnType(dynamic.desc).getInternalName());
    if (type == null || !checked.isOfSpark(type.name)) {
      return;
    }
    if (!is(type.access, Opcodes.ACC_INTERFACE)) {
      found("has a lambda of " + type.name + ", which is a class");
      return;
    }
    Set<String> given = new LinkedHashSet<>();
    given.add(dynamic.name + dynamic.bsmArgs[0]);
    if (dynamic.bsm.getName().equals("altMetafactory")) { // its bridges come last
      Stream.of(dynamic.bsmArgs)
          .skip(4)
          .filter(Type.class::isInstance)
          .forEach(one -> given.add(dynamic.name + one));
    }
    for (String signature : given) {
      int start = signature.indexOf('(');
      if (checked.method(type, signature.substring(0, start), signature.substring(start)) == null) {
        found("has a lambda for " + type.name + "." + signature + ", which is missing");
      }
    }
    ClassNode made = new ClassNode();
    made.name = "a lambda of " + type.name;
    made.superName = "java/lang/Object";
    made.interfaces = List.of(type.name);
    implemented(made, given);
  }

  // -- the classes of one Spark
  // -----------------------------------------------------------------------

  private static boolean is(int access, int flag) {
    return (access & flag) != 0;
  }

  private static boolean overrides(int access) {
    return !is(access, Opcodes.ACC_STATIC | Opcodes.ACC_PRIVATE);
  }

  private static MethodNode declared(ClassNode type, String name, String desc) {
    for (MethodNode one : type.methods) {
      if (one.name.equals(name) && one.desc.equals(desc)) {
        return one;
      }
    }
    return null;
  }

  private record Member<M>(ClassNode owner, M node) {}

  /** Our jar, the jars of a Spark, and the JDK that runs this program. */
  private static final class Classes {
    private final Map<String, Path> jars = new HashMap<>();
    private final Map<Path, JarFile> open = new HashMap<>();
    private final Map<String, ClassNode> read = new HashMap<>();
    private final Set<String> ours = new HashSet<>();

    Classes(Path jar, Path folder) throws IOException {
      index(jar);
      ours.addAll(jars.keySet());
      try (DirectoryStream<Path> found = Files.newDirectoryStream(folder, "*.jar")) {
        for (Path one : found) {
          index(one);
        }
      }
    }

    private void index(Path jar) throws IOException {
      JarFile file = new JarFile(jar.toFile());
      open.put(jar, file);
      file.stream()
          .map(ZipEntry::getName)
          .filter(name -> name.endsWith(".class"))
          .forEach(name -> jars.putIfAbsent(name.substring(0, name.length() - 6), jar));
    }

    /** Of Spark or of what Spark brings: neither ours nor of the JDK. */
    boolean isOfSpark(String name) {
      return jars.containsKey(name) && !ours.contains(name);
    }

    /** Whether a member of this class can be one of Spark. */
    boolean reachesSpark(String name) {
      ClassNode type = find(name);
      return isOfSpark(name)
          || type != null && above(type).stream().anyMatch(one -> isOfSpark(one.name));
    }

    ClassNode find(String name) {
      return read.computeIfAbsent(name, this::load);
    }

    private ClassNode load(String name) {
      String path = name + ".class";
      try (InputStream bytes =
          jars.containsKey(name)
              ? open.get(jars.get(name)).getInputStream(new ZipEntry(path))
              : ClassLoader.getPlatformClassLoader().getResourceAsStream(path)) {
        if (bytes == null) {
          return null;
        }
        ClassNode type = new ClassNode();
        new ClassReader(bytes).accept(type, MEMBERS);
        return type;
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }

    /** Superclasses from the nearest on, then all interfaces. */
    List<ClassNode> above(ClassNode type) {
      Map<String, ClassNode> found = new LinkedHashMap<>();
      List<ClassNode> chain = new ArrayList<>(List.of(type));
      for (ClassNode one = parent(type); one != null; one = parent(one)) {
        found.put(one.name, one);
        chain.add(one);
      }
      chain.forEach(one -> interfaces(one, found));
      return List.copyOf(found.values());
    }

    private ClassNode parent(ClassNode type) {
      return type.superName == null ? null : find(type.superName);
    }

    private void interfaces(ClassNode type, Map<String, ClassNode> found) {
      for (String name : type.interfaces) {
        ClassNode one = find(name);
        if (one != null && found.putIfAbsent(name, one) == null) {
          interfaces(one, found);
        }
      }
    }

    Member<FieldNode> field(ClassNode type, String name, String desc) {
      for (ClassNode one : Stream.concat(Stream.of(type), above(type).stream()).toList()) {
        for (FieldNode field : one.fields) {
          if (field.name.equals(name) && field.desc.equals(desc)) {
            return new Member<>(one, field);
          }
        }
      }
      return null;
    }

    /** What a name of a method is resolved to, abstract or not. */
    Member<MethodNode> method(ClassNode type, String name, String desc) {
      if (name.equals(CONSTRUCTOR)) { // which nobody inherits
        MethodNode own = declared(type, name, desc);
        return own == null ? null : new Member<>(type, own);
      }
      for (ClassNode one : Stream.concat(Stream.of(type), above(type).stream()).toList()) {
        MethodNode method = declared(one, name, desc);
        boolean hidden =
            method != null
                && one != type
                && is(one.access, Opcodes.ACC_INTERFACE)
                && !overrides(method.access);
        if (method != null && !hidden) {
          return new Member<>(one, method);
        }
      }
      return null;
    }

    /**
     * Where the code is that runs: one class; none if the method is abstract; two if defaults
     * contradict.
     */
    List<ClassNode> implementation(ClassNode type, String name, String desc) {
      for (ClassNode one = type; one != null; one = parent(one)) {
        MethodNode method = declared(one, name, desc);
        if (method != null && overrides(method.access) && !is(one.access, Opcodes.ACC_INTERFACE)) {
          return is(method.access, Opcodes.ACC_ABSTRACT) ? List.of() : List.of(one);
        }
      }
      List<ClassNode> found = new ArrayList<>();
      for (ClassNode one : Stream.concat(Stream.of(type), above(type).stream()).toList()) {
        MethodNode method = declared(one, name, desc);
        if (method != null && overrides(method.access) && is(one.access, Opcodes.ACC_INTERFACE)) {
          found.add(one);
        }
      }
      // The most specific ones: those that no other one extends.
      List<ClassNode> last =
          found.stream()
              .filter(
                  one ->
                      found.stream().noneMatch(other -> other != one && above(other).contains(one)))
              .toList();
      return last.stream()
          .filter(one -> !is(declared(one, name, desc).access, Opcodes.ACC_ABSTRACT))
          .toList();
    }
  }
}
